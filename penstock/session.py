"""`penstock.connect()`: everything a program can ask of one home.

A session starts Spark, and opens a source's replication connection, only when a call needs them. Calls raise errors of
`penstock.errors`, each with a hint; a call that failed changed nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.capture.ingest import Progress
from penstock.capture.lifecycle import Captures
from penstock.catalog import pins, relations, sources, stream_tables
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import Refreshed
from penstock.config import Settings
from penstock.cut import Frontier
from penstock.errors import ConfigError, NotYet
from penstock.lsn import Lsn
from penstock.refresh.positions import position_at, readable
from penstock.refresh.status import Status, status
from penstock.relation.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.lake.publish import Published
    from penstock.lake.reader import Reader
    from penstock.refresh.plans import Plans
    from penstock.refresh.round import Refresh
    from penstock.refresh.verify import Verification

__all__ = ["Session", "Status", "connect"]


def connect(
    home: str | Path = "data",
    catalog: str | None = None,
    spark: SparkSession | None = None,
    config: Settings | Mapping[str, Any] | None = None,
) -> Session:
    """Open a home: its folder, its catalog (embedded unless a DSN is given) and, when first needed, Spark.

    `spark` is a session of yours to work on; its settings are left alone. `config` takes the settings of
    `penstock.config.Settings`.
    """
    return Session(Home.at(home), catalog, spark, Settings.of(config))


class Session:
    """One process's view of a home. Close it, or use it as a context manager."""

    def __init__(self, home: Home, catalog: str | None, spark: SparkSession | None, settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self.catalog = Catalog(home, catalog)
        self._given_spark = spark
        self._captures = Captures(home, self.catalog)
        self._stop = threading.Event()

    def close(self) -> None:
        """Stop capturing, and Spark if it was started here. Safe to call twice."""
        self._stop.set()
        self._captures.close()
        if "spark" in self.__dict__ and self._given_spark is None:
            self.spark.stop()
            del self.__dict__["spark"]
        self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def spark(self) -> SparkSession:
        """The Spark session in use, started at the first access."""
        from penstock.lake import session

        if self._given_spark is not None:
            return session.adopt(self._given_spark)
        return session.start(self.home.root, memory=self.settings.spark_memory)

    @cached_property
    def reader(self) -> Reader:
        from penstock.lake.reader import Reader

        return Reader(self.home, self.catalog, lambda: self.spark)

    @cached_property
    def plans(self) -> Plans:
        from penstock.refresh.plans import Plans

        return Plans(self.catalog)

    # Sources ----------------------------------------------------------------------------------------------------------

    def add_source(
        self, name: str, dsn: str, tables: Sequence[str] = ("public.*",), *, progress: Progress | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        """Capture tables of a PostgreSQL database: makes a publication and a slot there and copies the rows.

        Idempotent: the same call again does nothing, or ends a copy that was interrupted. `tables` are names, or
        `schema.*` for all tables of a schema. Options are those of `penstock.capture.SourceConfig`.
        """
        self._captures.add(name, dsn, tables, options, progress)

    def remove_source(self, name: str, *, force: bool = False) -> None:
        """Drop the source's slot and publication, and its tables here. Refused while a stream table reads them.

        `force` forgets a source whose server cannot be reached; a slot left there keeps WAL until someone drops it.
        """
        self._captures.remove(name, force=force)

    def resync(self, source: str, table: str) -> None:
        """Copy one table again."""
        raise NotYet(f"resync of {source}.{table}", hint="Remove the source and add it again to copy all its tables.")

    def catch_up(self, until: Frontier | None = None) -> Frontier:
        """Capture and settle everything committed now (or up to `until`); returns the frontier that can be read."""
        from penstock.lake.settling import settle_source

        for source in sources.every(self.catalog):
            ingest = self._captures.open(source.name)
            target = ingest.server_position() if until is None else until.get(source.name, Lsn(0))
            ingest.reach(target)
            settle_source(self.reader, self.catalog, ingest.lease, source.name)
        return self.frontier()

    def disconnect(self) -> None:
        """Leave the sources' servers; the next `catch_up` connects again and goes on where it was."""
        self._captures.close()

    def frontier(self) -> Frontier:
        """How far every source can be read."""
        return readable(self.catalog)

    # Stream tables ----------------------------------------------------------------------------------------------------

    def create_stream_table(
        self, name: str, query: str, *, schedule: str | None = None, mode: str = "AUTO", dialect: str = "postgres"
    ) -> None:
        """Define a view that stays fresh. Idempotent if equal; its first refresh fills it."""
        from penstock.refresh import define

        define.create(self.catalog, self.plans, name, query, schedule=schedule, mode=mode, dialect=dialect)

    def alter_stream_table(
        self, name: str, *, schedule: str | None = None, mode: str | None = None, query: str | None = None
    ) -> None:
        """Change the schedule or the mode of a stream table."""
        from penstock.refresh import define

        if query is not None:
            raise NotYet("altering the query of a stream table", hint="Drop it and create it again.")
        define.alter(self.catalog, name, schedule=schedule, mode=mode)

    def drop_stream_table(self, name: str) -> None:
        """Remove a stream table with its Delta table. Refused while another stream table reads it."""
        from penstock.refresh import define

        define.drop(self.catalog, self.home, name)

    def refresh(self, name: str, to: Frontier | None = None) -> Refresh:
        """Bring a stream table, and those it reads, to a frontier (default: all that can be read) in one round."""
        from penstock.refresh import round as rounds

        stream_tables.get(self.catalog, name)
        return rounds.refresh(self.reader, self.catalog, self.plans, [name], to)[name]

    def refresh_all(self, to: Frontier | None = None) -> dict[str, Refresh]:
        """Bring all stream tables to one frontier in one round."""
        from penstock.refresh import round as rounds

        names = [table.name for table in stream_tables.every(self.catalog)]
        return rounds.refresh(self.reader, self.catalog, self.plans, names, to) if names else {}

    # Reading ----------------------------------------------------------------------------------------------------------

    def table(self, name: str, at: Frontier | None = None) -> DataFrame:
        """The rows of a table or stream table, now or at a frontier: its own columns only."""
        relation, position = self._position(name, at)
        return self.reader.rows(relation, position)

    def changes(self, name: str, since: Frontier, until: Frontier | None = None) -> DataFrame:
        """What changed after `since`, as rows with `_weight`: added up on the rows then, they give the rows now."""
        from penstock.lake.reader import net

        relation, last = self._position(name, until)
        first = position_at(self.catalog, relation, self._own(relation.name, since))
        names = list(relation.schema.names)
        return net(self.reader.changes(relation, first, last, names), names)

    def _position(self, name: str, at: Frontier | None) -> tuple[relations.Relation, int]:
        relation = relations.find(self.catalog, name)
        return relation, position_at(self.catalog, relation, self._own(relation.name, at))

    def _own(self, name: str, at: Frontier | None) -> Frontier:
        """The part of a frontier that concerns a relation; for a view without one, where it is."""
        relation = relations.find(self.catalog, name)
        if relation.source is not None:
            return self.frontier() if at is None else at
        table = stream_tables.get(self.catalog, relation.name)
        if table.frontier is None:
            raise ConfigError(f"stream table {name!r} was never refreshed", hint=f"Call refresh({name!r}) first.")
        return table.frontier if at is None else at.only(table.frontier)

    def pin(self, frontier: Frontier) -> int:
        """Keep a frontier readable until `release`."""
        return pins.add(self.catalog, frontier)

    def release(self, pin: int) -> None:
        """Let go of a pin."""
        pins.release(self.catalog, pin)

    def execute(self, statement: str) -> DataFrame:
        """Run a SELECT (Spark SQL) over tables and stream tables, all at one frontier."""
        from penstock.sql.select import select

        return select(self.catalog, self.reader, statement)

    # The lake and the source ------------------------------------------------------------------------------------------

    def publish(self, name: str) -> Published:
        """Bring the Delta table of a table or stream table to its newest state; nothing happens if it is there."""
        from penstock.lake import publish

        relation, position = self._position(name, None)
        with self.catalog.lease(f"publish {relation.name}") as lease:
            return publish.publish(self.reader, lease, relation, position, self._own(relation.name, None))

    def verify(self, name: str | None = None, *, repair: bool = False) -> Verification:
        """Compare with PostgreSQL at one exact LSN: a source with the stream tables over it, or one relation.

        Captures up to that LSN and refreshes the stream tables to it first.
        """
        from penstock.refresh.verify import verify

        if repair:
            raise NotYet("verify(repair=True)", hint="Remove the source and add it again.")
        return verify(self, name)

    # Looking ----------------------------------------------------------------------------------------------------------

    def explain(self, name: str) -> str:
        """How a stream table is kept fresh: its algebra and the laws of its delta."""
        from penstock.views import explain

        table = stream_tables.get(self.catalog, name)
        return explain(self.plans.of(table, relations.every(self.catalog)))

    def status(self) -> Status:
        """How far every source is captured and how fresh every stream table is; needs no Spark."""
        return status(self.catalog)

    def history(self, name: str, limit: int = 100) -> list[Refreshed]:
        """The refreshes of a stream table, newest first."""
        return stream_tables.history(self.catalog, stream_tables.get(self.catalog, name).relation_id, limit)

    def run(self) -> None:
        """Capture, refresh by schedule and publish, until `stop` or Ctrl-C."""
        from penstock.refresh.runner import run

        run(self, self._stop)

    def stop(self) -> None:
        """End a `run` in another thread after its current step."""
        self._stop.set()
