"""`penstock.connect()`: everything a program can ask of one home.

A session starts Spark, and opens a source's replication connection, only when a call needs them. Calls raise errors of
`penstock.errors`, each with a hint; a call that failed changed nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.capture import recovery
from penstock.capture.home_copy import Progress
from penstock.capture.recovery import Recovery
from penstock.catalog import pins, publishing, relations, source_events, sources, stream_tables, verifications
from penstock.catalog.publishing import PublishLine
from penstock.catalog.source_events import SourceEvent
from penstock.catalog.stream_tables import Refreshed
from penstock.catalog.verifications import Verified
from penstock.config import Settings
from penstock.cut import Frontier
from penstock.errors import InvalidQuery
from penstock.refresh.engine import Engine
from penstock.refresh.monitor import Monitor
from penstock.refresh.positions import readable
from penstock.refresh.status import Status, status
from penstock.relation.home import Home
from penstock.sql.answer import Answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.capture.source_apply import SourcePlan
    from penstock.lake.publish import Published
    from penstock.project.plan import Plan, Step
    from penstock.refresh.alter import Alteration
    from penstock.refresh.backup import Backup
    from penstock.refresh.maintenance import Maintained
    from penstock.refresh.metrics import MetricsServer
    from penstock.refresh.moments import Moment
    from penstock.refresh.round import Refresh
    from penstock.refresh.verify import Verification

__all__ = ["Answer", "Session", "Status", "connect"]


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
    return Session(Engine(Home.at(home), catalog, spark, Settings.of(config)))


class Session:
    """One process's view of a home. Close it, or use it as a context manager."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.home = engine.home
        self.catalog = engine.catalog
        self._stop = threading.Event()

    def close(self) -> None:
        """Stop capturing, and Spark if it was started here. Safe to call twice."""
        self._stop.set()
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def spark(self) -> SparkSession:
        """The Spark session in use, started at the first access."""
        return self.engine.spark

    # Sources ----------------------------------------------------------------------------------------------------------

    def add_source(
        self, name: str, dsn: str, tables: Sequence[str] = ("public.*",), *, progress: Progress | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        """Capture tables of a PostgreSQL database: makes a publication and a slot there and copies the rows.

        Idempotent: the same call again ends a copy that was interrupted, and takes in tables that match by now. With
        other tables, new ones are copied while the rest goes on, and those left out are forgotten. `tables` are names,
        or `schema.*` for all tables of a schema. Options are those of `penstock.capture.SourceConfig`.
        """
        self.engine.captures.add(name, dsn, tables, options, progress)

    def apply_sources(
        self, path: str | Path, *, dry_run: bool = False, progress: Progress | None = None
    ) -> list[SourcePlan]:
        """Bring sources to what a YAML file says of them (docs/many-tables.md).

        Everything is compared before anything is changed. Idempotent; `dry_run` only compares. Sources that the file
        does not name are left alone.
        """
        from penstock.capture.config import SourceConfig
        from penstock.capture.source_apply import plan
        from penstock.capture.source_file import read_file

        plans = [plan(self.catalog, spec) for spec in read_file(path, SourceConfig.types())]
        for one in plans if not dry_run else ():
            self.engine.captures.apply(one, progress)
        return plans

    def remove_source(self, name: str, *, force: bool = False) -> None:
        """Drop the source's slot and publication, and its tables here. Refused while a stream table reads them.

        `force` forgets a source whose server cannot be reached; a slot left there keeps WAL until someone drops it.
        """
        self.engine.captures.remove(name, force=force)

    def recreate_slot(self, name: str, *, progress: Progress | None = None) -> None:
        """After a lost slot: drop what is left of it, make a new one, and copy the source's tables again.

        Refused while a stream table reads them: its changes would have a gap.
        """
        self.engine.captures.recreate(name, progress)

    def resync(self, source: str, table: str, *, progress: Progress | None = None) -> None:
        """Copy one table again, as it is now, while the source's others go on.

        Until that is done the table cannot be read; the stream tables over it are then computed anew at their next
        refresh, or suspended if a column that they use has changed.
        """
        self.engine.captures.resync(source, table, progress)

    def events(self, source: str, limit: int = 100) -> list[SourceEvent]:
        """What happened to a source's tables, newest first: changes followed, tables copied again, new or gone."""
        return source_events.recent(self.catalog, sources.get(self.catalog, source).id, limit)

    def resume(self, source: str) -> Frontier:
        """After a pause in front of a schema change: follow what changed up to now; the next change pauses again."""
        return self.engine.catch_up(following=source)

    def catch_up(self, until: Frontier | None = None) -> Frontier:
        """Capture and settle everything committed now (or up to `until`); returns the frontier that can be read."""
        return self.engine.catch_up(until)

    def frontier(self, at: Moment | None = None) -> Frontier:
        """How far every source can be read; or the frontier that a moment (with time zone) or an LSN means."""
        return readable(self.catalog) if at is None else self.engine.frontier_at(at)

    # Stream tables ----------------------------------------------------------------------------------------------------

    def create_stream_table(
        self, name: str, query: str, *, schedule: str | None = None, mode: str = "AUTO", dialect: str = "postgres",
        cdc_mode: str | None = None, initialize: bool = False,
    ) -> None:  # fmt: skip
        """Define a view that stays fresh (docs/stream-tables.md). Idempotent if equal.

        Its first refresh fills it: by hand, on schedule, or with `initialize` now. `schedule` is an interval ("30s"), a
        cron expression, "on-commit" or "downstream"; without one it is refreshed with what reads it, and by hand.
        """
        from penstock.refresh import define

        wanted = define.Wanted(query, schedule, mode, dialect, cdc_mode).checked(
            self.engine.settings.cdc_mode, self.engine.settings.min_schedule
        )
        known = stream_tables.lookup(self.catalog, name) is not None
        table = define.create(self.catalog, self.engine.plans, name, wanted)
        try:
            self._guard_sources()
            if initialize and table.frontier is None:
                self.engine.refresh([name], wait=define.WAIT, initiated_by="INITIAL")
        except BaseException:
            if not known:
                define.drop(self.catalog, self.home, name)  # a call that failed changed nothing
            raise

    def alter_stream_table(
        self, name: str, *, query: str | None = None, schedule: str | None = None, mode: str | None = None,
        status: str | None = None, cdc_mode: str | None = None,
    ) -> Alteration:  # fmt: skip
        """Change what is given, and say what that came to.

        Another query with the same output columns keeps the stream table, which is computed anew at its next refresh;
        with other columns it is rebuilt, which is refused while another stream table reads it. `status` is "SUSPENDED"
        or "ACTIVE", which also forgives errors.
        """
        from penstock.refresh import alter, define

        was = define.Wanted.of(stream_tables.get(self.catalog, name))
        given = {"query": query, "schedule": schedule, "mode": mode, "cdc_mode": cdc_mode}
        wanted = replace(was, **{option: value for option, value in given.items() if value is not None})
        wanted = wanted.checked(self.engine.settings.cdc_mode, self.engine.settings.min_schedule)
        done = alter.alter(self.catalog, self.engine.plans, self.home, name, wanted, status)
        self._guard_sources()
        return done

    def replace_stream_table(
        self, name: str, query: str, *, schedule: str | None = None, mode: str = "AUTO", dialect: str = "postgres",
        cdc_mode: str | None = None,
    ) -> Alteration:  # fmt: skip
        """Make a stream table what is said here, all of it; like `alter_stream_table` otherwise."""
        from penstock.refresh import alter, define

        wanted = define.Wanted(query, schedule, mode, dialect, cdc_mode).checked(
            self.engine.settings.cdc_mode, self.engine.settings.min_schedule
        )
        done = alter.alter(self.catalog, self.engine.plans, self.home, name, wanted)
        self._guard_sources()
        return done

    def resume_stream_table(self, name: str) -> None:
        """Refresh it on schedule again, after it was suspended or failed too often."""
        self.alter_stream_table(name, status="ACTIVE")

    def drop_stream_table(self, name: str, *, cascade: bool = False) -> list[str]:
        """Remove a stream table with its Delta table; refused while another one reads it, unless with `cascade`, which
        removes those too. Returns the names of what was removed."""
        from penstock.refresh import define

        gone = define.drop(self.catalog, self.home, name, cascade=cascade)
        self._guard_sources()
        return gone

    def _guard_sources(self) -> None:
        """What the sources are to refuse has changed with the stream tables."""
        from penstock.refresh.source_guard import guard

        if self.engine.settings.block_source_ddl:
            guard(self.engine)

    def refresh(self, name: str, to: Frontier | None = None, *, full: bool = False) -> Refresh:
        """Bring a stream table, and those it reads, to a frontier (default: all that can be read) in one round.

        `full` computes it from its inputs alone, and what is stored of it is corrected by that.
        A refresh that is under way, also in another process, is waited for.
        """
        stream_tables.get(self.catalog, name)
        anew = [name] if full else ()
        return self.engine.refresh([name], to, anew=anew, wait=self.engine.settings.lock_timeout)[name]

    def refresh_all(self, to: Frontier | None = None) -> dict[str, Refresh]:
        """Bring all stream tables to one frontier in one round."""
        names = [table.name for table in stream_tables.every(self.catalog)]
        return self.engine.refresh(names, to, wait=self.engine.settings.lock_timeout)

    def plan(self, folder: str | Path, *, drop: bool = False, project: str | None = None) -> Plan:
        """What has to be done so that stream tables are as the `.sql` files of a folder say (docs/projects.md).

        Changes nothing, and raises what is wrong with a file. `drop` includes stream tables whose file is gone.
        """
        from penstock.project.build import build
        from penstock.project.files import read_folder

        name = project or Path(folder).resolve().name
        return build(self.engine, name, read_folder(folder), drop=drop)

    def apply(self, plan: Plan, *, progress: Callable[[Step], None] | None = None) -> Plan:
        """Carry out a plan, step by step; `progress` is told of each before it is done. Again, it does nothing.

        Interrupted, what was done stays, and a new plan has what is left.
        """
        from penstock.project.execute import execute

        execute(self, plan, progress)
        return plan

    # Reading ----------------------------------------------------------------------------------------------------------

    def table(self, name: str, at: Moment | None = None) -> DataFrame:
        """The rows of a table or stream table: its own columns only.

        `at` is a frontier, an LSN, a `datetime` with time zone, or one of them as text; by default now. A stream table
        can be read at frontiers it was refreshed to, and at an LSN or a moment as it was last refreshed before.
        """
        relation, position, _ = self.engine.position(name, at)
        return self.engine.reader.rows(relation, position)

    def state(self, name: str, at: Moment | None = None) -> DataFrame:
        """The rows with a `_weight`, not added up: cheaper than `table` for sums that take it into account."""
        relation, position, _ = self.engine.position(name, at)
        return self.engine.reader.state(relation, position, relation.schema.names)

    def changes(self, name: str, since: Moment, until: Moment | None = None) -> DataFrame:
        """What changed after `since`, as rows with `_weight`: added up on the rows then, they give the rows now."""
        from penstock.lake.zset_frames import net

        relation, last, _ = self.engine.position(name, until)
        _, first, _ = self.engine.position(name, since)
        names = list(relation.schema.names)
        return net(self.engine.reader.changes(relation, first, last, names), names)

    def register_views(self, names: Sequence[str] = (), at: Moment | None = None) -> dict[str, str]:
        """Make tables and stream tables (default: all) known to Spark SQL as temporary views, all at one frontier.

        The views are in the Spark session given to `connect`, or in `spark`. Returns the view of each relation: the
        table's name, with its schema and source only where that is needed to tell two apart. The views stay as they
        are; call it again for newer rows.
        """
        from penstock.sql.registered import register

        return register(self.engine, names, at)

    def pin(self, frontier: Moment) -> int:
        """Keep a frontier readable until `release`."""
        return pins.add(self.catalog, self.engine.frontier_at(frontier))

    def pins(self) -> list[pins.Pin]:
        """All pins, oldest first."""
        return pins.every(self.catalog)

    def release(self, pin: int) -> None:
        """Let go of a pin."""
        pins.release(self.catalog, pin)

    def execute(self, statement: str, at: Moment | None = None) -> DataFrame | Answer:
        """Run SQL (docs/sql.md): one statement, or several with `;` between them; the answer of the last one.

        A SELECT (Spark SQL) answers with a DataFrame over tables and stream tables, all at one frontier: the newest, or
        `at`. Any other answers with an `Answer` of `columns`, `rows` and a `message`. Nothing is run unless all
        statements are well written.
        """
        answers = list(self.execute_each(statement, at))
        if not answers:
            raise InvalidQuery("there is no statement", hint="Write one, such as SHOW STREAM TABLES.")
        return answers[-1]

    def execute_each(
        self, text: str, at: Moment | None = None, *, progress: Progress | None = None
    ) -> Iterator[DataFrame | Answer]:
        """Run statements one after the other; the answer of each when it is done. `progress` is told of copied rows."""
        from penstock.sql.grammar import parse
        from penstock.sql.run import run

        parsed = parse(text)
        return (run(self, one.statement, at, progress) for one in parsed)

    # The lake and the source ------------------------------------------------------------------------------------------

    def publish(self, name: str) -> Published:
        """Bring the Delta table of a table or stream table to its newest state; nothing happens if it is there."""
        return self.engine.publish(name)

    def publish_all(self) -> list[Published]:
        """Bring all Delta tables to one frontier, and write the manifest that says which versions those are."""
        from penstock.refresh.publishing import publish_together

        return publish_together(self.engine)

    def set_publishing(self, name: str, pace: str | None) -> None:
        """When `run()` publishes a relation: "adaptive", "every-cut", "manual", an interval such as "30s", or None for
        the home's setting `publish_interval`."""
        from penstock.refresh.pace import Pace

        if pace is not None:
            Pace.parse(pace)
        publishing.set_pace(self.catalog, relations.find(self.catalog, name).name, pace)

    def publish_history(self, name: str, limit: int = 100) -> list[PublishLine]:
        """What was done to a Delta table, newest first: publishes, OPTIMIZE, VACUUM and what failed."""
        return publishing.history(self.catalog, relations.find(self.catalog, name).id, limit)

    def optimize(self, name: str) -> str | None:
        """Rewrite small files and files with deleted rows of a Delta table, in key order; what was done, if any."""
        from penstock.refresh.delta_upkeep import optimize

        return optimize(self.engine, relations.find(self.catalog, name), force=True)

    def vacuum(self, name: str) -> timedelta:
        """Delete what only old versions of a Delta table need; how far back versions stay whole.

        That is the setting `keep_versions`, or longer where a pin or the manifest needs an older version.
        """
        from penstock.refresh.delta_upkeep import vacuum

        return vacuum(self.engine, relations.find(self.catalog, name))

    def verify(
        self, name: str | None = None, *, repair: bool = False, progress: Progress | None = None
    ) -> Verification:
        """Compare with PostgreSQL at one exact LSN: a source with the stream tables over it, or one relation.

        Captures up to that LSN and refreshes the stream tables to it first, or waits for the process that does.
        `repair` puts right what differs: the rows alone, or the table where they are too many, and views computed anew.
        """
        from penstock.refresh.verify import verify

        return verify(self.engine, name, progress, repair=repair)

    def verify_history(self, limit: int = 100) -> list[Verified]:
        """What verifications found, newest first."""
        return verifications.history(self.catalog, limit)

    def maintain(self) -> Maintained:
        """One step of the changelog's upkeep, as `run` takes them: what nobody needs goes, small segments are put
        together. No answer changes by it."""
        return self.engine.maintain()

    def backup(self, folder: str | Path, *, keep_log: bool = False) -> Backup:
        """Write the catalog and all files it names into a new folder, while everything goes on.

        `keep_log` leaves a slot on each source, so that a restore can replay what came after; it holds back WAL there
        until the next backup, or `penstock slots forget`.
        """
        from penstock.refresh.backup import backup

        return backup(self.home, self.catalog, Path(folder), keep_log=keep_log)

    def recovery(self, source: str) -> Recovery:
        """Whether a source's slot has passed this home, as after a restore, and the way on."""
        return recovery.look(sources.get(self.catalog, source))

    def recover(self, source: str, *, progress: Progress | None = None) -> Recovery:
        """Go that way: replay what a backup kept, or copy the source's tables again. Nothing if nothing is missing."""
        found = self.recovery(source)
        self.engine.captures.recover(source, found, progress)
        return found

    # Looking ----------------------------------------------------------------------------------------------------------

    def explain(self, name: str) -> str:
        """How a stream table is kept fresh, by the laws of its delta, and how a relation is published."""
        from penstock.refresh.explain_publishing import explain_publishing
        from penstock.refresh.explain_refresh import explain_refresh
        from penstock.views import explain

        relation = relations.find(self.catalog, name)
        if relation.source is not None:
            return explain_publishing(self.engine, relation)
        table = stream_tables.get(self.catalog, name)
        view = explain(self.engine.plans.of(table, relations.every(self.catalog)).view)
        return "\n".join([view, explain_refresh(self.engine, table), explain_publishing(self.engine, relation)])

    def explain_query(self, query: str, name: str = "query") -> str:
        """How a stream table with this query would be kept fresh; nothing is made."""
        from penstock.refresh.define import Wanted, define
        from penstock.views import explain

        known = relations.every(self.catalog)
        definition = define(self.catalog, Wanted(query), known)
        return explain(self.engine.plans.compile(name, definition.query, definition.dialect, known))

    @property
    def monitor(self) -> Monitor:
        """Stream tables, refreshes, sources and slots, as they are now (docs/monitoring.md)."""
        return Monitor(self.catalog)

    def dag(self) -> str:
        """What is computed from what, as indented text: a stream table, and under it what it reads."""
        from penstock.refresh.dag_text import dag_text

        return dag_text(self.monitor.dependencies(), self.monitor.stream_tables())

    def status(self) -> Status:
        """How far every source is captured and how fresh every stream table is; needs no Spark."""
        return status(self.catalog)

    def history(self, name: str, limit: int = 100) -> list[Refreshed]:
        """The refreshes of a stream table, newest first."""
        return stream_tables.history(self.catalog, stream_tables.get(self.catalog, name).relation_id, limit)

    def serve_metrics(self, port: int, host: str = "127.0.0.1") -> MetricsServer:
        """Answer Prometheus at `http://host:port/metrics` until closed; port 0 takes a free one (see its `port`)."""
        from penstock.refresh.metrics import MetricsServer

        return MetricsServer(self.catalog, port, host)

    def run(self) -> None:
        """Capture, refresh by schedule and publish, until `stop` or Ctrl-C."""
        from penstock.refresh.runner import run
        from penstock.refresh.watch import Watch

        with Watch(self.engine):
            run(self.engine, self._stop)

    def stop(self) -> None:
        """End a `run` in another thread after its current step."""
        self._stop.set()
