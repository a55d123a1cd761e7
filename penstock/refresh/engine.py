"""The parts of an open home, put together, and the steps that need several of them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

import psycopg

from penstock.capture.lifecycle import Captures
from penstock.catalog import descriptions, relations, sources, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.config import Settings
from penstock.cut import Frontier
from penstock.errors import ConfigError, NotRetained, PenstockError, RowUnknown, SchemaChanged
from penstock.lsn import Lsn
from penstock.refresh.positions import position_at, readable
from penstock.relation.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.capture.ingest import Settle
    from penstock.lake.publish import Published
    from penstock.lake.reader import Reader
    from penstock.refresh.maintenance import Maintained
    from penstock.refresh.moments import Moment
    from penstock.refresh.plans import Plans
    from penstock.refresh.round import Refresh
    from penstock.refresh.workers import Workers

log = logging.getLogger("penstock.changelog")


class Engine:
    """Spark and the views' compiler are loaded at first use, so that looking at a catalog needs neither."""

    def __init__(self, home: Home, catalog: str | None, spark: SparkSession | None, settings: Settings) -> None:
        self.home = home
        self.settings = settings
        self.catalog = Catalog(home, catalog)
        self.captures = Captures(home, self.catalog, lambda *changes: self._settle_at_once(*changes))
        self._given_spark = spark
        self._starting = threading.Lock()

    def close(self) -> None:
        with ExitStack() as all_of_them:  # the last one first; each, whatever becomes of the others
            all_of_them.callback(self.catalog.close)
            all_of_them.callback(self._stop_computing)
            all_of_them.callback(self._describe)
            all_of_them.callback(self.captures.close)

    def _stop_computing(self) -> None:
        if (workers := self.__dict__.pop("workers", None)) is not None:
            workers.close()
        if "_spark" in self.__dict__ and self._given_spark is None:
            self.spark.stop()
            del self.__dict__["_spark"]

    def _describe(self) -> None:
        """What is owed of this process's segments; what cannot be written now is with the upkeep's first step."""
        try:
            descriptions.write_owed(self.catalog, self.home, age=0)
        except psycopg.Error as error:
            log.info("some segments are not described yet: %s", error)

    @property
    def spark(self) -> SparkSession:
        """Started at first use, by whichever thread needs it first."""
        with self._starting:
            return self._spark

    @property
    def users_spark(self) -> SparkSession:
        """The session that was given to us, where people run queries of their own; else ours."""
        return self.spark if self._given_spark is None else self._given_spark

    @cached_property
    def _spark(self) -> SparkSession:
        from penstock.lake import session

        if self._given_spark is not None:
            return session.adopt(self._given_spark)
        return session.start(self.home.root, memory=self.settings.spark_memory)

    @cached_property
    def reader(self) -> Reader:
        from penstock.lake.hot_columns import HOT
        from penstock.lake.reader import Reader

        if self.settings.lookup_memory is not None:
            HOT.limit(self.settings.lookup_memory)
        return Reader(self.home, self.catalog, lambda: self.spark)

    @cached_property
    def _settling(self) -> Reader:
        """One of its own, because refreshes may be computed while more is captured."""
        from penstock.lake.reader import Reader

        return Reader(self.home, self.catalog, lambda: self.spark)

    @cached_property
    def _settle_at_once(self) -> Settle:
        from penstock.lake.settling import AtOnce

        return AtOnce(self._settling)

    def read_anew(self) -> None:
        """Forget what reading remembers: the files are what counts."""
        self.__dict__.pop("reader", None)
        self.__dict__.pop("_settling", None)
        self.__dict__.pop("_settle_at_once", None)
        if (workers := self.__dict__.pop("workers", None)) is not None:
            workers.close()

    @cached_property
    def plans(self) -> Plans:
        from penstock.refresh.plans import Plans

        return Plans(self.catalog)

    def catch_up(self, until: Frontier | None = None, *, following: str | None = None) -> Frontier:
        """Capture and settle what is committed now, or up to `until`; returns what can be read then."""
        self.capture(until, following=following)
        return readable(self.catalog)

    def capture(
        self, until: Frontier | None = None, *, known: Sequence[Source] | None = None, finish: bool = True,
        wait: bool = True, following: str | None = None,
    ) -> None:  # fmt: skip
        """Capture and settle what is committed now, or up to `until`; without `wait`, what has come by now.

        Of all sources, or of those that are `known`.

        A source that is paused in front of a schema change, or cannot be reached, does not keep the others from going
        on; `following` goes on with a paused one.
        """
        held_up: list[PenstockError] = []
        for source in sources.every(self.catalog) if known is None else known:
            target = None if until is None else until.get(source.name, Lsn(0))
            follow = True if following == source.name else None
            try:
                self._capture_source(source, target, finish=finish, wait=wait, follow=follow)
            except PenstockError as error:
                if not error.transient and not isinstance(error, SchemaChanged):
                    raise
                held_up.append(error)
        if held_up:
            raise held_up[0]

    def _capture_source(
        self, source: sources.Source, target: Lsn | None, *, finish: bool, wait: bool, follow: bool | None
    ) -> None:
        """A root with a change of a row that is not known here is copied again; once, should that not help."""
        from penstock.lake.settling import settle_source

        copied: set[str] = set()
        while True:
            lease = self.captures.catch_up(source.name, target, finish=finish, wait=wait, follow=follow)
            unsure = self.captures.may_be_unsettled(source.name)
            if not unsure or not sources.is_unsettled(self.catalog, source.id):
                return
            try:
                settle_source(self._settling, self.catalog, lease, source.name)
                return
            except RowUnknown as parted:
                if parted.table in copied:
                    raise
                copied.add(parted.table)
                self.captures.copy_root(source.name, parted)

    @cached_property
    def workers(self) -> Workers:
        from penstock.refresh.workers import Workers

        return Workers(self.reader, lambda: self.spark, self.settings.max_concurrent_refreshes)

    def refresh(
        self, names: Sequence[str], to: Frontier | None = None, *, anew: Collection[str] = (), wait: float = 0.0,
        initiated_by: str = "MANUAL",
    ) -> dict[str, Refresh]:  # fmt: skip
        """Bring stream tables, and those they read, to one frontier in one round; raises the first failure of one.

        Those named in `anew` are computed from their inputs alone, and what is stored of them is corrected by that.
        """
        from penstock.refresh import round as rounds

        if not names:
            return {}
        terms = rounds.Terms(
            initiated_by, self.settings.differential_max_change_ratio, self.settings.max_consecutive_errors, anew
        )
        done = rounds.refresh(self.catalog, self.plans, self.workers, names, to, terms=terms, wait=wait)
        for failure in done.failures.values():
            raise failure
        return done.done

    def position(self, name: str, at: Moment | None = None) -> tuple[Relation, int, Frontier]:
        """A relation, and where it is at a frontier; by default the newest it can be read at.

        A stream table must have been at the frontier; of an LSN or a moment, it is read as it was last refreshed.
        """
        relation = relations.find(self.catalog, name)
        if relation.source is not None:
            newest = readable(self.catalog).only([relation.source])
            if relation.ended is not None and relation.source in newest:
                newest = Frontier({relation.source: min(newest[relation.source], relation.ended)})
            frontier = newest if at is None else self.frontier_at(at).only([relation.source])
        else:
            table = stream_tables.get(self.catalog, relation.name)
            if table.frontier is None:
                raise ConfigError(f"stream table {name!r} was never refreshed", hint=f"Call refresh({name!r}) first.")
            frontier = table.frontier if at is None else self.frontier_at(at).only(table.frontier)
            if at is not None and not isinstance(at, Frontier):
                frontier = self._refreshed_until(relation, frontier)
        position = position_at(self.catalog, relation, frontier)
        return relations.at(self.catalog, relation, position) if relation.source else relation, position, frontier

    def maintain(self, *, least: int | None = None, sweep: bool = True) -> Maintained:
        """One step of the changelog's upkeep."""
        from penstock.refresh import maintenance

        enough = maintenance.LEAST if least is None else least
        return maintenance.maintain(self.home, self.catalog, self.settings, least=enough, sweep=sweep)

    def frontier_at(self, at: Moment) -> Frontier:
        """The frontier that an LSN, a moment or a text means."""
        from penstock.refresh.moments import frontier_at

        return at if isinstance(at, Frontier) else frontier_at(self.home, self.catalog, at)

    def _refreshed_until(self, relation: Relation, frontier: Frontier) -> Frontier:
        found = stream_tables.newest_until(self.catalog, relation.id, frontier)
        if found is None:
            raise NotRetained(
                f"stream table {relation.name} was first refreshed after {frontier}",
                hint="history() has its frontiers.",
            )
        return found

    def publish(self, name: str) -> Published:
        """Bring a relation's Delta table to its newest position, and what a view's operators remember with it."""
        from penstock.refresh.publishing import publish_relation

        return publish_relation(self, name)
