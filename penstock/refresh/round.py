"""A round: stream tables and everything they read, brought to one frontier.

Upstream views come first and are read at the round's own target, also while their changes are only files. Those that
share nothing with each other are groups; a group is computed side by side with others and becomes real by one catalog
transaction of its own, so no reader ever sees a view that is ahead of what it reads, and what fails in one group holds
up no other. Inside a group a failure leaves the view, and what reads it, where they were.

A scheduler's round does not let quick groups wait for slow ones: while some are still computed, those that are done and
due again go on to a newer target. The round is over when all are that it began with.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

import psycopg

from penstock.catalog import attempts, relations, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.store import Catalog, Question, beginning
from penstock.catalog.stream_tables import Refreshed, StreamTable
from penstock.cut import Frontier
from penstock.errors import CatalogError, NotRetained, PenstockError, RefreshError, StorageFull, Suspended
from penstock.failpoint import FailpointReached, hit
from penstock.refresh import life, retry
from penstock.refresh.answers import Answer
from penstock.refresh.dag import independent, reachable, upstream_first
from penstock.refresh.decision import MAX_CHANGE_RATIO, Action
from penstock.refresh.life import Event, Status
from penstock.refresh.plans import Plans
from penstock.refresh.standing import Standing
from penstock.refresh.table_refresh import Outcome, TableRefresh, Task, check_forward, check_readable
from penstock.refresh.workers import Workers
from penstock.relation.home import Home
from penstock.relation.segment import Segment, timed

LEASE = "stream tables"
_IDLE = (Action.NO_DATA, Action.SKIP)


@dataclass(frozen=True)
class Refresh:
    """What a refresh did to one stream table."""

    name: str
    action: Action
    reason: str
    inserted: int
    deleted: int
    seconds: float
    frontier: Frontier
    reads: tuple[Answer, ...] = ()  # of a differential refresh: how each thing it needed was read
    changed_rows: int | None = None
    round: int | None = None  # of the commit that made it real; None if nothing had to be committed

    @property
    def fields(self) -> dict[str, Any]:
        """What a log line about it has beside its text."""
        return {
            "stream_table": self.name,
            "action": str(self.action),
            "reason": self.reason,
            "inserted": self.inserted,
            "deleted": self.deleted,
            "seconds": round(self.seconds, 3),
            "round": self.round,
            "frontier": {source: str(cut) for source, cut in self.frontier.items()},
        }


@dataclass(frozen=True)
class Terms:
    """How a round goes about it: who asked for it, what is tolerated, and what ends it early."""

    initiated_by: str = "MANUAL"
    max_change_ratio: float = MAX_CHANGE_RATIO
    max_errors: int = 3
    anew: Collection[str] = ()
    stop: threading.Event = field(default_factory=threading.Event)
    passing: dict[int, int] = field(default_factory=dict)  # errors in a row that do not count, by relation
    took: dict[int, float] = field(default_factory=dict)  # seconds that each took last: quick ones go first

    @property
    def scheduled(self) -> bool:
        return self.initiated_by == "SCHEDULER"


@dataclass(frozen=True)
class Stays:
    """Why a stream table is not brought to the target: it does not fit, it failed, or somebody said so."""

    reason: str
    misfit: bool = False
    failed: bool = False


@dataclass
class _Group:
    """Stream tables that become real together, and where everything stood when they were begun."""

    standing: Standing
    refresh: TableRefresh
    order: TopologicalSorter[int]
    again: bool
    names: frozenset[str]
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    attempt: int | None = None
    done: dict[int, Refresh] = field(default_factory=dict)
    written: list[int] = field(default_factory=list)  # relations
    syncing: list[Future[None]] = field(default_factory=list)  # files that are not durable yet

    def begun(self, attempt: int) -> None:
        self.attempt = attempt


@dataclass(frozen=True)
class _Result:
    """What came of a task: an outcome or an error of its own."""

    task: Task
    seconds: float
    outcome: Outcome | None = None
    error: Exception | None = None
    syncing: Sequence[Future[None]] = ()


More = Callable[[Collection[str]], tuple[Standing, Sequence[str]] | None]


@dataclass(frozen=True)
class Again:
    """For those that are done before the round is: how to get what is new, and which are due then."""

    capture: Callable[[], object]
    due: Callable[[Standing], Sequence[str]]


class Round:
    """The state of one round while it is computed; `failures` are those of its stream tables, by name.

    `more`, if given, is asked what else to refresh while these names are still being computed. `moves` has every
    refresh, `done` the last one of each stream table.
    """

    def __init__(
        self, catalog: Catalog, plans: Plans, workers: Workers, lease: Lease, terms: Terms, more: More | None = None
    ) -> None:
        self._catalog = catalog
        self._plans = plans
        self._workers = workers
        self._lease = lease
        self._terms = terms
        self._more = more
        self._pending: dict[int, list[Segment]] = {}
        self._active: list[_Group] = []
        self._groups: dict[int, _Group] = {}
        self._stays: dict[int, Stays] = {}
        self.moves: list[Refresh] = []
        self.failures: dict[str, PenstockError] = {}

    @property
    def done(self) -> dict[str, Refresh]:
        return {one.name: one for one in self.moves}

    def refresh(self, standing: Standing, names: Sequence[str]) -> None:
        """Compute all of `names` and what they read, and commit each group."""
        self._begin(standing, names)
        self._run()

    def _begin(self, standing: Standing, names: Sequence[str], *, again: bool = False) -> None:
        terms = self._terms
        refresh = TableRefresh(self._catalog, self._plans, standing, terms.max_change_ratio, terms.anew)
        groups = [
            [standing.by_name[name] for name in upstream_first(group, standing.inputs)]
            for group in independent(names, standing.inputs)
        ]
        for members in sorted(groups, key=self._expected):
            graph = {table.relation_id: [one for one in table.inputs if one in standing.tables] for table in members}
            order = TopologicalSorter(graph)
            order.prepare()
            begun = _Group(standing, refresh, order, again, frozenset(table.name for table in members))
            for table in members:
                check_forward(table, standing.target_of(table))
                self._groups[table.relation_id] = begun
                self._stays.pop(table.relation_id, None)
            self._active.append(begun)

    def _expected(self, members: Sequence[StreamTable]) -> float:
        """Seconds that a group will take, by what its members did last."""
        return sum(self._terms.took.get(table.relation_id, 0.0) for table in members)

    def _run(self) -> None:
        """Decisions are made here, one by one; what needs Spark is computed by as many as may work at once, the first
        while the next is decided."""
        waiting: deque[Task] = deque()
        running: set[Future[_Result]] = set()
        try:
            while self._active and not self._terms.stop.is_set():
                for task in self._ready():
                    if len(self._active) > 1 and not waiting and len(running) < self._workers.most:
                        running.add(self._workers.submit(partial(self._compute, task)))
                    else:
                        waiting.append(task)
                if len(waiting) == 1 and not running:
                    self._take(self._compute(waiting.popleft()))
                    continue
                while waiting and len(running) < self._workers.most:
                    task = waiting.popleft()
                    running.add(self._workers.submit(partial(self._compute, task)))
                if running:
                    there = len(self._active)
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        self._take(future.result())
                    if len(self._active) < there:
                        self._go_on()
        finally:
            wait(running)

    def _ready(self) -> Iterator[Task]:
        """What can be computed now; a stream table for which nothing is to be computed may make others ready."""
        for group in list(self._active):
            while group in self._active and (ready := group.order.get_ready()):
                for id_ in ready:
                    task = self._decide(group.standing.tables[id_])
                    if task is None:
                        self._over(id_)
                    else:
                        yield task

    def _go_on(self) -> None:
        """A group is done: unless all are that the round began with, it may be due again."""
        if self._more is None or all(group.again for group in self._active):
            return
        found = self._more(frozenset().union(*(group.names for group in self._active)))
        if found is not None:
            self._begin(*found, again=True)

    # One stream table -------------------------------------------------------------------------------------------------

    def _decide(self, table: StreamTable) -> Task | None:
        """What is left to compute; None if it is over already."""
        stays = self._must_stay(table)
        if stays is not None:
            self._skip(table, stays)
            return None
        try:
            with self._workers.reader() as reader:
                refresh = self._groups[table.relation_id].refresh
                begin = self._beginning(self._groups[table.relation_id])
                task = refresh.decide(reader.beside(self._pending), table, self._pending, begin)
        except Suspended as why:
            reason = why.message.partition(" is suspended: ")[2]
            self._skip(table, Stays(reason, misfit=True), why)
            return None
        except NotRetained:
            raise  # of a frontier that was asked for
        except Exception as error:
            self._fail(table, _own(error, self._terms), 0.0)
            return None
        if task.decision.action in _IDLE:
            self._note(table, Outcome(task.decision, {}), 0.0)
            return None
        return task

    def _compute(self, task: Task) -> _Result:
        started = time.monotonic()
        syncing: list[Future[None]] = []
        try:
            with self._workers.reader() as reader:
                beside = reader.beside(self._pending, task.asked)
                refresh = self._groups[task.table.relation_id].refresh
                attempt = self._groups[task.table.relation_id].attempt
                assert attempt is not None
                outcome = refresh.compute(
                    beside, task, attempt, lambda path: syncing.append(self._workers.make_durable(path))
                )
            return _Result(task, time.monotonic() - started, outcome, syncing=syncing)
        except Exception as error:
            return _Result(task, time.monotonic() - started, error=_own(error, self._terms))

    def _take(self, result: _Result) -> None:
        table = result.task.table
        if isinstance(result.error, Suspended):
            reason = result.error.message.partition(" is suspended: ")[2]
            self._skip(table, Stays(reason, misfit=True), result.error)
        elif result.error is not None:
            self._fail(table, result.error, result.seconds)
        else:
            assert result.outcome is not None
            written = {id_: segments for id_, segments in result.outcome.written.items() if segments}
            self._pending |= written
            self._groups[table.relation_id].written.extend(written)
            self._groups[table.relation_id].syncing.extend(result.syncing)
            self._terms.took[table.relation_id] = result.seconds
            self._note(table, result.outcome, result.seconds)
        self._over(table.relation_id)

    def _note(self, table: StreamTable, outcome: Outcome, seconds: float) -> None:
        group = self._groups[table.relation_id]
        group.done[table.relation_id] = Refresh(
            table.name, outcome.decision.action, outcome.decision.reason, outcome.inserted, outcome.deleted, seconds,
            group.standing.target_of(table), outcome.reads, outcome.changed_rows,
        )  # fmt: skip

    def _over(self, relation_id: int) -> None:
        group = self._groups[relation_id]
        group.order.done(relation_id)
        if not group.order.is_active():
            self._active.remove(group)
            self._commit(group)

    def _beginning(self, group: _Group) -> Question[None] | None:
        """The attempt that all of a group write in is registered with the first thing that is asked for it."""
        return None if group.attempt is not None else beginning(self._lease, "refresh", group.begun)

    # What cannot be refreshed -----------------------------------------------------------------------------------------

    def _must_stay(self, table: StreamTable) -> Stays | None:
        if table.suspended_by == "hand":
            return Stays(table.status_reason or "suspended by hand")
        if table.status == Status.ERROR and self._terms.scheduled:
            return Stays("it failed too often")
        tables = self._groups[table.relation_id].standing.tables
        below = [(tables[one].name, self._stays[one]) for one in table.inputs if one in self._stays]
        if not below:
            return None
        name, stays = below[0]
        if stays.failed:
            return Stays(f"it reads {name}, which could not be refreshed", failed=True)
        return Stays(f"it reads {name}, which is suspended", misfit=True)

    def _skip(self, table: StreamTable, stays: Stays, why: Exception | None = None) -> None:
        """It stays at its last frontier, and so does what reads it; said in the history when it is new."""
        failed = stays.failed or table.status == Status.ERROR
        self._stays[table.relation_id] = replace(stays, failed=failed)
        frontier = table.frontier or Frontier({})
        self.moves.append(Refresh(table.name, Action.SKIP, stays.reason, 0, 0, 0.0, frontier))
        began = self._groups[table.relation_id].began
        with self._catalog.connection.transaction():
            stream_tables.tried(self._catalog, [table.relation_id], began)
            if stays.misfit and (table.status, table.status_reason) != (Status.SUSPENDED, stays.reason):
                status = life.after(table.status, Event.MISFIT)
                stream_tables.set_status(self._catalog, table.relation_id, status, stays.reason, "inputs")
            elif stays.misfit or _said(self._catalog, table, stays.reason):
                return
            line = Refreshed(
                table.name, Action.SKIP, stays.reason, 0, 0, 0.0, frontier, str(why) if why else None,
                initiated_by=self._terms.initiated_by,
            )  # fmt: skip
            stream_tables.record(self._catalog, table.relation_id, line)

    def _fail(self, table: StreamTable, error: Exception, seconds: float) -> None:
        """Spark's message without its stack; the whole of it stays as the cause."""
        id_, terms = table.relation_id, self._terms
        told = _told(table, error)
        verdict = retry.judge(error, table.consecutive_errors, terms.passing.get(id_, 0), terms.max_errors)
        if retry.is_passing(error):
            terms.passing[id_] = terms.passing.get(id_, 0) + 1
        line = Refreshed(
            table.name, "FAILED", "", 0, 0, seconds, None, told.message, initiated_by=terms.initiated_by
        )  # fmt: skip
        with self._catalog.connection.transaction():
            stream_tables.record(self._catalog, id_, line)
            stream_tables.count_error(self._catalog, id_, verdict.errors, verdict.wait)
            if verdict.last and table.status != Status.ERROR:
                status = life.after(table.status, Event.FAILED_OFTEN)
                stream_tables.set_status(self._catalog, id_, status, told.message)
        self.failures[table.name] = told
        self._stays[id_] = Stays(told.message, failed=True)

    # Becoming real ----------------------------------------------------------------------------------------------------

    def _commit(self, group: _Group) -> None:
        pending = {id_: self._pending.pop(id_) for id_ in group.written}
        tables = group.standing.tables
        moved = {
            id_: done
            for id_, done in group.done.items()
            if tables[id_].frontier != done.frontier
            or id_ in pending
            or done.action not in _IDLE
            or tables[id_].status != Status.ACTIVE
        }
        if not moved:
            stream_tables.tried(self._catalog, list(group.done), group.began)
            self.moves.extend(group.done.values())
            return
        try:
            number = self._record(group, moved, pending)
        except (StorageFull, OSError) as error:  # a file could not be made durable
            for id_, done in moved.items():
                self._fail(tables[id_], error, done.seconds)
            return
        for id_, done in group.done.items():
            if id_ in moved:
                self._terms.passing.pop(id_, None)
                done = replace(done, round=number)
            self.moves.append(done)

    def _record(
        self, group: _Group, moved: Mapping[int, Refresh], pending: Mapping[int, Sequence[Segment]]
    ) -> int | None:
        """Everything in one transaction, whose number is returned; its files are durable before the COMMIT is sent."""
        tables = group.standing.tables
        hit("refresh.files_written")
        with self._catalog.commit(self._lease, group.attempt, "refresh", piped=True) as commit:
            for relation_id, segments in pending.items():
                relations.record_segments(commit, relation_id, timed(segments))
            stream_tables.reach_all(commit, {id_: done.frontier for id_, done in moved.items()})
            stream_tables.record_all(commit, {id_: self._line(done) for id_, done in moved.items()})
            stream_tables.settle(commit, [id_ for id_ in moved if _is_settled(tables[id_])])
            stream_tables.tried(commit, list(group.done), group.began)
            for one in group.syncing:
                one.result()
        return commit.round

    def _line(self, done: Refresh) -> Refreshed:
        return Refreshed(
            done.name, done.action, done.reason, done.inserted, done.deleted, done.seconds, done.frontier,
            changed_rows=done.changed_rows, initiated_by=self._terms.initiated_by,
        )  # fmt: skip


def _is_settled(table: StreamTable) -> bool:
    """Whether something about a stream table that was refreshed is still as it was before; the move is checked."""
    event = Event.FITS if table.status == Status.SUSPENDED else Event.REFRESHED
    assert life.after(table.status, event) is Status.ACTIVE
    return bool(table.status != Status.ACTIVE or table.reinit_reason or table.consecutive_errors or table.retry_at)


def _said(catalog: Catalog, table: StreamTable, reason: str) -> bool:
    lines = stream_tables.history(catalog, table.relation_id, 1)
    return bool(lines and (lines[0].action, lines[0].reason) == (Action.SKIP, reason))


def _own(error: Exception, terms: Terms) -> Exception:
    """An error of the stream table; one of the catalog, of Spark as a whole, or of a round that was ended is raised."""
    if terms.stop.is_set() or isinstance(error, (CatalogError, psycopg.Error, FailpointReached)):
        raise error
    if isinstance(error, (ConnectionError, EOFError)) or type(error).__name__ == "Py4JNetworkError":
        raise RefreshError(f"Spark is gone: {error}", hint="Start again; its log is in the home's logs.") from error
    return error


def _told(table: StreamTable, error: Exception) -> PenstockError:
    if isinstance(error, PenstockError):
        return error
    message = str(error).strip().split("\n\nJVM stacktrace")[0].split("\n== SQL")[0]
    told = RefreshError(
        f"stream table {table.name} could not be refreshed: {message}",
        hint="Nothing was changed. The view stays at its last frontier until the cause is gone.",
    )
    told.__cause__ = error
    return told


def refresh(
    catalog: Catalog, plans: Plans, workers: Workers, names: Sequence[str], to: Frontier | None = None, *,
    terms: Terms | None = None, wait: float = 0.0, again: Again | None = None,
) -> Round:  # fmt: skip
    """Bring stream tables, and all they read, to `to` (default: everything readable now) in one round.

    Another refresh under way is waited for, for `wait` seconds.
    """
    with catalog.lease(LEASE, wait=wait) as lease:
        with workers.reader() as reader:
            home = reader.home
        attempts.collect(catalog, home, lease)
        follow = partial(_followed, catalog, plans, home, lease)

        def more(again: Again, busy: Collection[str]) -> tuple[Standing, Sequence[str]] | None:
            again.capture()
            standing = Standing.read(catalog)
            free = [name for name in again.due(standing) if not reachable([name], standing.inputs) & set(busy)]
            return (follow(standing, reachable(free, standing.inputs)), free) if free else None

        standing = Standing.read(catalog, to)
        check_readable(standing.target, standing.newest)
        standing = follow(standing, standing.by_name)
        made = Round(catalog, plans, workers, lease, terms or Terms(), partial(more, again) if again else None)
        made.refresh(standing, names)
        return made


def _followed(
    catalog: Catalog, plans: Plans, home: Home, lease: Lease, standing: Standing, names: Collection[str]
) -> Standing:
    """Where everything stands, renames of columns followed by these stream tables: none that is being computed."""
    from penstock.refresh.follow import follow_renames

    tables = [standing.by_name[name] for name in names if name in standing.by_name]
    known = list(standing.known.values())
    if standing.target == standing.newest and follow_renames(catalog, plans, home, lease, tables, known):
        return Standing.read(catalog, standing.newest)
    return standing
