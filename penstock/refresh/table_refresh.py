"""One stream table of a round: the catalog alone says what is to be done, one Spark query then computes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from penstock.catalog import foreign_keys, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog, Question
from penstock.catalog.stream_tables import StreamTable
from penstock.cut import Frontier
from penstock.errors import NotRetained, Suspended
from penstock.lake.reader import Asked, Reader
from penstock.refresh import compute
from penstock.refresh.answers import Answer
from penstock.refresh.compute import Input, Prepared, Stored
from penstock.refresh.costs import UNKNOWN, WINDOW, Costs
from penstock.refresh.decision import VERY_FEW_ROWS, Action, Decision, Mode, Situation, decide
from penstock.refresh.keys_that_hold import spans
from penstock.refresh.plans import Plan, Plans
from penstock.refresh.positions import reached, table_position
from penstock.refresh.standing import Standing
from penstock.relation.segment import PENDING, Segment, SegmentWriter


@dataclass(frozen=True)
class Outcome:
    """What a refresh did to a stream table, and the segments it wrote, by relation."""

    decision: Decision
    written: Mapping[int, list[Segment]]
    inserted: int = 0
    deleted: int = 0
    changed_rows: int | None = None
    reads: tuple[Answer, ...] = ()


@dataclass(frozen=True)
class Task:
    """A decision, what carrying it out reads and writes, and what the catalog said of that."""

    table: StreamTable
    decision: Decision
    inputs: Sequence[Input] = ()
    outputs: Mapping[str, Relation] = field(default_factory=dict)
    changed_rows: int | None = None
    asked: Asked = field(default_factory=dict, repr=False)


def check_forward(table: StreamTable, target: Frontier) -> None:
    if table.frontier is not None and not table.frontier <= target and table.reinit_reason is None:
        raise NotRetained(
            f"stream table {table.name} is at {table.frontier}, past the asked {target}",
            hint="A refresh goes forward only. Read the past with table(name, at=frontier).",
        )


def check_readable(target: Frontier, newest: Frontier) -> None:
    late = [source for source, cut in target.items() if source in newest and cut > newest[source]]
    if late:
        raise NotRetained(
            f"source {late[0]} is readable up to {newest[late[0]]}, not yet up to {target[late[0]]}",
            hint="Call catch_up() first, or ask for an earlier frontier.",
        )


class TableRefresh:
    """Decides and computes; `anew` names those that are to be computed from their inputs alone."""

    def __init__(
        self, catalog: Catalog, plans: Plans, standing: Standing, max_change_ratio: float, anew: Collection[str] = ()
    ) -> None:
        self._catalog = catalog
        self._plans = plans
        self._standing = standing
        self._ratio = max_change_ratio
        self._anew = anew

    def decide(
        self, reader: Reader, table: StreamTable, pending: Collection[int], begin: Question[Any] | None = None
    ) -> Task:
        """`reader` sees the segments of `pending` relations, which this round has written. Raises `Suspended`.

        `begin` registers the attempt that will read what is listed with it, so that its files stay.
        """
        standing, target = self._standing, self._standing.target_of(table)
        before = table.frontier
        situation = partial(Situation, Mode(table.mode), before, target, max_change_ratio=self._ratio)
        if table.suspended_by or any(standing.known[one].version > 1 for one in table.inputs):
            self._plans.of(table, list(standing.known.values()))  # raises what suspends it, also when nothing changed
        marked = "asked for" if table.name in self._anew else table.reinit_reason
        if before is not None and marked is None and (before == target or standing.is_quiet(table)):
            return Task(table, decide(situation()))
        basis = None if marked else before
        inputs = [self._input(standing.known[one], basis, target, pending) for one in table.inputs]
        outputs = self._outputs(table)
        wanted = {one.relation.id: one.before for one in inputs} | {one.id: PENDING for one in outputs.values()}
        keys = {
            (foreign_keys.holding, *span): foreign_keys.which_hold(*span)
            for span in spans([one.ends for one in inputs])
        }
        asked = reader.ask_ahead(wanted, keys, begin)
        lost = None if basis is None else _lost(inputs)
        if basis is None or lost:
            return Task(table, decide(situation(reinitialize=marked or lost)), inputs, outputs, asked=asked)
        changed = sum(reader.changed_rows(one.relation, one.before, one.after) for one in inputs)
        total, costs = 0, UNKNOWN
        if changed > VERY_FEW_ROWS and table.mode == Mode.AUTO:
            total = sum(compute.size(reader, one.relation) for one in inputs)
            costs = learned(self._catalog, table.relation_id)
        return Task(table, decide(situation(changed, total, costs=costs)), inputs, outputs, changed, asked)

    def compute(self, reader: Reader, task: Task, attempt: int, durable: Callable[[Path], None]) -> Outcome:
        """`reader` knows what was asked for the task; `durable` gets every file that is written."""
        table, decision, inputs, outputs = task.table, task.decision, task.inputs, task.outputs
        plan, stored = self._planned(task)
        writers = {
            name: SegmentWriter(reader.home, one.folder, attempt, durable=durable) for name, one in outputs.items()
        }
        chosen = decision.action is Action.FULL and table.mode == Mode.AUTO and table.round is not None
        found: compute.Changes | None = None
        if decision.action is Action.DIFFERENTIAL:
            found = compute.differential(reader, plan, inputs, stored, writers)
        elif not chosen or compute.sees_changes(reader, plan.view, inputs):
            found = compute.full_refresh(reader, plan, inputs, stored, writers)
        if found is None:
            nothing = Decision(Action.NO_DATA, "no change that the view can see")
            return Outcome(nothing, {}, changed_rows=task.changed_rows)
        written = {outputs[name].id: segments for name, segments in found.segments.items()}
        return Outcome(decision, written, found.inserted, found.deleted, task.changed_rows, found.answers)

    def prepared(self, reader: Reader, task: Task) -> Prepared | None:
        """What a differential refresh would read; None if nothing changed that the view can see."""
        plan, stored = self._planned(task)
        return compute.prepare(reader, plan, task.inputs, stored)

    def _planned(self, task: Task) -> tuple[Plan, Stored]:
        plan = self._plans.of(task.table, list(self._standing.known.values()))
        return plan, Stored(task.outputs, task.table.round)

    def _outputs(self, table: StreamTable) -> dict[str, Relation]:
        relation = self._standing.known[table.relation_id]
        states = self._standing.states.get(table.relation_id, ())
        return {compute.VIEW: relation, **{one.name.rpartition("#")[2]: one for one in states}}

    def _input(self, relation: Relation, before: Frontier | None, target: Frontier, pending: Collection[int]) -> Input:
        if relation.kind == "table":
            source = str(relation.source)
            if relation.ended is not None and target[source] > relation.ended:
                raise Suspended(f"a stream table is suspended: {relation.ended_because}")
            return Input(relation, before[source] if before else -1, table_position(relation, target))
        sources = self._standing.sources_of(relation.id)
        old = -1 if before is None else _reached(self._catalog, relation, before.only(sources))
        if relation.id in pending:
            return Input(relation, old, PENDING)
        now = self._standing.tables[relation.id].round  # brought to the target in this round, without changes
        return Input(relation, old, -1 if now is None else now)


_UNKNOWN = -2  # before anything that can be read


def _reached(catalog: Catalog, relation: Relation, frontier: Frontier) -> int:
    """Where an input was; it may be unknown after its own query was altered."""
    try:
        return reached(catalog, relation, frontier)
    except NotRetained:
        return _UNKNOWN


def _lost(inputs: Sequence[Input]) -> str | None:
    """Why the changes since the last refresh cannot be read, if so."""
    unknown = [one.relation.name for one in inputs if one.before == _UNKNOWN]
    if unknown:
        return f"what {', '.join(unknown)} was at the last refresh is not known any more"
    anew = [one.relation.name for one in inputs if one.before < one.relation.since]
    if anew:
        return f"{', '.join(anew)} was copied again"
    gone = [one.relation.name for one in inputs if one.before < one.relation.retained]
    return f"changes of {', '.join(gone)} were dropped at the changelog's limit" if gone else None


def learned(catalog: Catalog, relation_id: int) -> Costs:
    """What the last refreshes took."""
    lines = [line for line in stream_tables.history(catalog, relation_id, WINDOW) if line.error is None]
    full = tuple(line.seconds for line in lines if line.action in (Action.FULL, Action.REINITIALIZE))
    return Costs(
        full,
        tuple((line.changed_rows or 0, line.seconds) for line in lines if line.action == Action.DIFFERENTIAL),
    )
