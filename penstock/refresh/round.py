"""A round: a stream table and everything it reads, brought to one frontier and committed together.

Upstream views come first and are read at the round's own target, also while their changes are only files. One catalog
transaction then makes all of it real, so no reader ever sees a view that is ahead of what it reads.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.catalog import attempts, relations, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import Refreshed, StreamTable
from penstock.cut import Frontier
from penstock.errors import NotRetained, PenstockError, RefreshError, Suspended
from penstock.failpoint import FailpointReached, hit
from penstock.lake.reader import PENDING, Reader, at_round
from penstock.refresh import compute, life
from penstock.refresh.answers import Answer
from penstock.refresh.compute import Input, Stored
from penstock.refresh.dag import upstream_first
from penstock.refresh.decision import Action, Decision, Mode, Situation, decide
from penstock.refresh.life import Event, Status
from penstock.refresh.plans import Plans
from penstock.refresh.positions import position_at, reached, readable, sources_of
from penstock.relation.segment import Segment, SegmentWriter

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


@dataclass(frozen=True)
class _Outcome:
    decision: Decision
    written: Mapping[int, list[Segment]]
    inserted: int = 0
    deleted: int = 0
    reads: tuple[Answer, ...] = ()


class Round:
    """The state of one round while it is computed: nothing of it is visible before `commit`."""

    def __init__(
        self, reader: Reader, catalog: Catalog, plans: Plans, lease: Lease, target: Frontier,
        anew: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._catalog = catalog
        self._reader = reader
        self._plans = plans
        self._lease = lease
        self._target = target
        self._anew = anew
        self._known = {relation.id: _at(catalog, relation, target) for relation in relations.every(catalog)}
        self._tables = {table.relation_id: table for table in stream_tables.every(catalog)}
        self._attempt: int | None = None
        self._pending: dict[int, list[Segment]] = {}
        self._done: dict[int, Refresh] = {}
        self._suspended: dict[int, str] = {}
        self._began = datetime.now(UTC)

    def refresh(self, names: Sequence[str]) -> dict[str, Refresh]:
        """Compute all of `names` and what they read, commit, and say what was done."""
        for table in self._in_order(names):
            self._done[table.relation_id] = self._one(table)
        self._commit()
        return {done.name: done for done in self._done.values()}

    def _in_order(self, names: Sequence[str]) -> list[StreamTable]:
        by_name = {table.name: table for table in self._tables.values()}
        inputs = {
            table.name: [self._known[one].name for one in table.inputs if one in self._known]
            for table in by_name.values()
        }
        return [by_name[name] for name in upstream_first(names, inputs)]

    def _one(self, table: StreamTable) -> Refresh:
        started = time.monotonic()
        target = self._target.only(sources_of(table.relation_id, self._known, self._tables))
        try:
            self._check_held(table)
            self._check_upstream(table)
            outcome = self._outcome(table, target)
        except Suspended as reason:
            return self._skip(table, reason)
        except (PenstockError, FailpointReached):
            raise
        except Exception as error:
            raise self._failed(table, error, time.monotonic() - started) from error
        self._pending.update({id_: segments for id_, segments in outcome.written.items() if segments})
        return Refresh(
            table.name,
            outcome.decision.action,
            outcome.decision.reason,
            outcome.inserted,
            outcome.deleted,
            time.monotonic() - started,
            target,
            outcome.reads,
        )

    def _check_held(self, table: StreamTable) -> None:
        if table.suspended_by == "hand":
            raise Suspended(f"stream table {table.name} is suspended: by hand", hint="Resume it first.")

    def _check_upstream(self, table: StreamTable) -> None:
        behind = [self._suspended[one] for one in table.inputs if one in self._suspended]
        if behind:
            raise Suspended(f"stream table {table.name} is suspended: it reads {behind[0]}, which is")

    def _skip(self, table: StreamTable, why: Suspended) -> Refresh:
        """It stays at its last frontier, and so does what reads it."""
        self._suspended[table.relation_id] = table.name
        reason = why.message.partition(" is suspended: ")[2]
        frontier = table.frontier or Frontier({})
        if table.suspended_by != "hand" and table.status_reason != reason:
            status = life.after(table.status, Event.MISFIT)
            stream_tables.set_status(self._catalog, table.relation_id, status, reason, "inputs")
            line = Refreshed(table.name, Action.SKIP, reason, 0, 0, 0.0, frontier, str(why))
            stream_tables.record(self._catalog, table.relation_id, line)
        return Refresh(table.name, Action.SKIP, reason, 0, 0, 0.0, frontier)

    def _failed(self, table: StreamTable, error: Exception, seconds: float) -> RefreshError:
        """Spark's message without its stack; the whole of it stays as the cause."""
        message = str(error).strip().split("\n\nJVM stacktrace")[0].split("\n== SQL")[0]
        line = Refreshed(table.name, "FAILED", "", 0, 0, seconds, None, message)
        stream_tables.record(self._catalog, table.relation_id, line)
        return RefreshError(
            f"stream table {table.name} could not be refreshed: {message}",
            hint="Nothing was changed. The view stays at its last frontier until the cause is gone.",
        )

    def _outcome(self, table: StreamTable, target: Frontier) -> _Outcome:
        before = table.frontier
        if before is not None and not before <= target:
            raise NotRetained(
                f"stream table {table.name} is at {before}, past the asked {target}",
                hint="A refresh goes forward only. Read the past with table(name, at=frontier).",
            )
        if table.suspended_by or any(self._known[one].version > 1 for one in table.inputs):
            self._plans.of(table, list(self._known.values()))  # raises what suspends it, also when nothing changed
        reader = self._reader.beside(self._pending)
        inputs = [self._input(self._known[one], before, target) for one in table.inputs]
        mode = Mode(table.mode)
        if before and table.name in self._anew:
            return self._compute(reader, table, inputs, Decision(Action.REINITIALIZE, "asked for"))
        if before and table.reinit_reason is not None:
            return self._compute(reader, table, inputs, Decision(Action.REINITIALIZE, table.reinit_reason))
        anew = [one.relation.name for one in inputs if before and one.before < one.relation.since]
        if anew and before != target:
            reason = f"{', '.join(anew)} was copied again"
            return self._compute(reader, table, inputs, Decision(Action.REINITIALIZE, reason))
        lost = [one.relation.name for one in inputs if before and one.before < one.relation.retained]
        if lost and before != target:
            reason = f"changes of {', '.join(lost)} were dropped at the changelog's limit"
            return self._compute(reader, table, inputs, Decision(Action.REINITIALIZE, reason))
        changed = sum(reader.changed_rows(one.relation, one.before, one.after) for one in inputs) if before else 0
        total = sum(compute.size(reader, one.relation) for one in inputs) if changed and mode is Mode.AUTO else 0
        decision = decide(Situation(mode, before, target, changed, total))
        if decision.action is Action.NO_DATA:
            return _Outcome(decision, {})
        return self._compute(reader, table, inputs, decision)

    def _input(self, relation: Relation, before: Frontier | None, target: Frontier) -> Input:
        if relation.kind == "table":
            source = str(relation.source)
            if relation.ended is not None and target[source] > relation.ended:
                raise Suspended(f"a stream table is suspended: {relation.ended_because}")
            return Input(relation, before[source] if before else -1, position_at(self._catalog, relation, target))
        sources = sources_of(relation.id, self._known, self._tables)
        old = -1 if before is None else reached(self._catalog, relation, before.only(sources))
        if relation.id in self._pending:
            return Input(relation, old, PENDING)
        now = self._tables[relation.id].round  # brought to the target in this round, without changes
        return Input(relation, old, -1 if now is None else now)

    def _compute(self, reader: Reader, table: StreamTable, inputs: Sequence[Input], decision: Decision) -> _Outcome:
        plan = self._plans.of(table, list(self._known.values()))
        relation = self._known[table.relation_id]
        outputs = {compute.VIEW: relation}
        outputs |= {one.name.rpartition("#")[2]: one for one in relations.states_of(self._catalog, relation)}
        stored = Stored(outputs, table.round)
        if self._attempt is None:
            self._attempt = self._catalog.begin(self._lease, "refresh")
        writers = {name: SegmentWriter(reader.home, one.folder, self._attempt) for name, one in outputs.items()}
        if decision.action in (Action.FULL, Action.REINITIALIZE):
            changes = compute.full_refresh(reader, plan, inputs, stored, writers)
        else:
            found = compute.differential(reader, plan, inputs, stored, writers)
            if found is None:
                return _Outcome(Decision(Action.NO_DATA, "no change that the view can see"), {})
            changes = found
        written = {outputs[name].id: segments for name, segments in changes.segments.items()}
        return _Outcome(decision, written, changes.inserted, changes.deleted, changes.answers)

    def _commit(self) -> None:
        moved = {
            id_: done
            for id_, done in self._done.items()
            if done.action is not Action.SKIP
            if self._tables[id_].frontier != done.frontier
            or id_ in self._pending
            or done.action not in _IDLE
            or self._tables[id_].status != Status.ACTIVE
        }
        if not moved and not self._pending:
            stream_tables.tried(self._catalog, list(self._done), self._began)
            return
        hit("refresh.files_written")
        with self._catalog.commit(self._lease, self._attempt, "refresh") as commit:
            for relation_id, segments in self._pending.items():
                relations.record_segments(commit, relation_id, at_round(segments, commit.round))
            for relation_id, done in moved.items():
                stream_tables.reach(commit, relation_id, done.frontier)
                line = Refreshed(
                    done.name, done.action, done.reason, done.inserted, done.deleted, done.seconds, done.frontier, None
                )
                stream_tables.record(commit, relation_id, line)
                _check_move(self._tables[relation_id])
            stream_tables.settle(commit, list(moved))
            stream_tables.tried(commit, list(self._done), self._began)


def _check_move(table: StreamTable) -> None:
    event = Event.FITS if table.status == Status.SUSPENDED else Event.REFRESHED
    assert life.after(table.status, event) is Status.ACTIVE


def _at(catalog: Catalog, relation: Relation, target: Frontier) -> Relation:
    """A table in the shape it has at the target."""
    source = relation.source
    return relations.at(catalog, relation, target[source]) if source and source in target else relation


def refresh(
    reader: Reader, catalog: Catalog, plans: Plans, names: Sequence[str], to: Frontier | None = None,
    anew: Collection[str] = (), wait: float = 0.0,
) -> dict[str, Refresh]:  # fmt: skip
    """Bring stream tables, and all they read, to `to` (default: everything readable now) in one round.

    Those named in `anew` are computed from their inputs alone, and what is stored of them is corrected by that. Another
    refresh under way is waited for, for `wait` seconds.
    """
    with catalog.lease(LEASE, wait=wait) as lease:
        attempts.collect(catalog, reader.home, lease)
        return Round(reader, catalog, plans, lease, to or readable(catalog), anew).refresh(names)
