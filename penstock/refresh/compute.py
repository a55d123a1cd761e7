"""One view's changes from one frontier to another, by one Spark query.

DIFFERENTIAL runs the delta of the view over what changed. FULL computes the view anew and subtracts what is stored, so
that both give the same thing: the exact changes of the view and of what its operators remember.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.catalog import foreign_keys
from penstock.catalog.relations import Relation
from penstock.errors import RefreshError
from penstock.fitted import fitted
from penstock.lake.arrow_exchange import to_arrow
from penstock.lake.parts import computed_before
from penstock.lake.reader import GATHERED, SMALL, Reader
from penstock.lake.zset_frames import expand, net
from penstock.refresh import reads
from penstock.refresh.answers import Answer
from penstock.refresh.keys_that_hold import keys_that_hold
from penstock.refresh.plans import Plan, Rendered
from penstock.refresh.reads import At, Frames
from penstock.relation.segment import PENDING, Segment, SegmentWriter, rows_with_weight
from penstock.views import Read, View, placeholder
from penstock.zset import WEIGHT, consolidate

VIEW = "view"
_PREPARING = threading.Lock()
_PATIENCE = 0.02  # seconds: what takes longer is done outside of the interpreter


@dataclass(frozen=True)
class Input:
    """A relation the view reads, with its positions before and after."""

    relation: Relation
    before: int
    after: int

    @property
    def ends(self) -> tuple[Relation, int, int]:
        return self.relation, self.before, self.after


@dataclass(frozen=True)
class Stored:
    """Where a view and its operators' states are kept, by output name, and the round they were last written in."""

    relations: Mapping[str, Relation]
    round: int | None


@dataclass(frozen=True)
class Changes:
    """The segments a refresh wrote for each output, and what they do to the view."""

    segments: Mapping[str, list[Segment]]
    inserted: int
    deleted: int
    answers: tuple[Answer, ...] = ()


Writers = Mapping[str, SegmentWriter]


@dataclass(frozen=True)
class Prepared:
    """A differential refresh before Spark is asked: its program, and what of it is in memory."""

    rendered: Rendered
    reader: Reader
    deltas: Mapping[Read, pa.Table | DataFrame]
    places: Mapping[Read, At]
    known: reads.Known
    answers: tuple[Answer, ...]
    changes: int

    @property
    def all_in_memory(self) -> bool:
        there = self.rendered.program.reads <= self.known.keys()
        return there and sum(rows.num_rows for rows in self.known.values()) <= 2 * GATHERED


def prepare(reader: Reader, plan: Plan, inputs: Sequence[Input], stored: Stored) -> Prepared | None:
    """None if nothing changed that the view can see."""
    view = plan.view
    if stored.round is None:
        raise RefreshError(
            f"stream table {view.name} was never filled: there is nothing that a difference could be added to",
            hint="A full refresh comes first.",
        )
    changes = {one.relation.name: reader.changed_rows(one.relation, one.before, one.after) for one in inputs}
    if sum(changes.values()) <= GATHERED:
        reader = reader.light()
    deltas = _visible_changes(reader, view, inputs)
    if not deltas:
        return None
    sizes = {one.relation.name: size(reader, one.relation) for one in inputs}
    sizes |= {name: size(reader, relation) for name, relation in stored.relations.items()}
    growing = frozenset(read.relation for read, rows in deltas.items() if _only_grows(rows))
    rendered = plan.delta(frozenset(read.relation for read in deltas), sizes, changes, growing)
    places = {read: _at(read, view, inputs, stored) for read in rendered.program.reads}
    keys = keys_that_hold(partial(reader.once, foreign_keys.holding), [one.ends for one in inputs])
    known, answers = reads.in_memory(reader, rendered.program, deltas, places, keys)
    return Prepared(rendered, reader, deltas, places, known, tuple(answers), sum(changes.values()))


def differential(
    reader: Reader, plan: Plan, inputs: Sequence[Input], stored: Stored, writers: Writers
) -> Changes | None:
    """None if nothing changed that the view can see."""
    with _turn():
        ready = prepare(reader, plan, inputs, stored)
    if ready is None:
        return None
    rendered, reader = ready.rendered, ready.reader
    if ready.all_in_memory:
        rendered = rendered.in_memory
        frames = reads.frames_in_memory(reader, rendered.program, ready.known, ready.places)
    else:
        frames = reads.frames(reader, rendered.program, ready.known, ready.deltas, ready.places)
    if ready.changes <= GATHERED:
        made = _write_rows(_collect(reader, rendered, frames, stored), writers)
    else:
        made = _write_frames(_outputs(reader, rendered, frames, stored), writers)
    return replace(made, answers=ready.answers)


@contextmanager
def _turn() -> Iterator[None]:
    """Few rows are looked up by the interpreter, which does one thing at a time: two that do so at once are both done
    when the second is. So the first goes first, and whoever comes meanwhile waits, but not for long."""
    first = _PREPARING.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if first:
            _PREPARING.release()


def full_refresh(reader: Reader, plan: Plan, inputs: Sequence[Input], stored: Stored, writers: Writers) -> Changes:
    """What is there now minus what was stored."""
    by_name = {one.relation.name: one for one in inputs}
    rendered = plan.full()
    frames = {}
    for read in rendered.program.reads:
        one = by_name[read.relation]
        frames[read] = reader.rows(one.relation, one.after, plan.view.used_columns[read.relation])
    if sum(size(reader, one.relation) for one in inputs) <= 2 * SMALL:
        new = _collect(reader, rendered, frames, stored)
        return _write_rows({name: _minus(reader, rows, stored, name) for name, rows in new.items()}, writers)
    made = _outputs(reader, rendered, frames, stored)
    return _write_frames({name: _minus_frame(reader, rows, stored, name) for name, rows in made.items()}, writers)


def query_alone(reader: Reader, plan: Plan, inputs: Mapping[str, tuple[Relation, int]]) -> DataFrame:
    """The view's weighted rows, computed from its inputs at their positions; nothing stored of it is read."""
    rendered = plan.full()
    output = rendered.program.outputs[VIEW]
    _bind({
        read: reader.rows(*inputs[read.relation], plan.view.used_columns[read.relation])
        for read in rendered.program.reads
    })  # fmt: skip
    return reader.spark().sql(output.sql)


def anew(reader: Reader, plan: Plan, inputs: Mapping[str, tuple[Relation, int]]) -> DataFrame:
    """The same as plain rows."""
    frame = query_alone(reader, plan, inputs)
    names = [column for column in frame.columns if column != WEIGHT]
    return expand(net(frame, names), names)


def size(reader: Reader, relation: Relation) -> int:
    """About how many rows a relation has: known without reading any."""
    base = reader.base(relation)
    return (base.rows if base else 0) + reader.changed_rows(relation, base.position if base else -1, PENDING)


def _visible_changes(reader: Reader, view: View, inputs: Sequence[Input]) -> dict[Read, pa.Table | DataFrame]:
    """Changes over the columns the view uses; an update that it cannot see cancels, and so may a whole input."""
    found: dict[Read, pa.Table | DataFrame] = {}
    for one in inputs:
        read, columns = Read("delta", one.relation.name), view.used_columns[one.relation.name]
        changed = reader.changed_rows(one.relation, one.before, one.after)
        if changed > GATHERED:
            found[read] = net(reader.changes(one.relation, one.before, one.after, columns), columns)
        elif changed:
            rows = reader.changes_arrow(one.relation, one.before, one.after, columns)
            if rows.num_rows:
                found[read] = rows
    return found


def sees_changes(reader: Reader, view: View, inputs: Sequence[Input]) -> bool:
    """Whether something changed in the columns that the view uses; of many changes, it is taken for granted."""
    for one in inputs:
        changed = reader.changed_rows(one.relation, one.before, one.after)
        if changed > GATHERED:
            return True
        columns = view.used_columns[one.relation.name]
        if changed and reader.changes_arrow(one.relation, one.before, one.after, columns).num_rows:
            return True
    return False


def _only_grows(rows: pa.Table | DataFrame) -> bool:
    """Whether a change takes no row away; not asked of one that is only in Spark."""
    return isinstance(rows, pa.Table) and pc.min(rows[WEIGHT]).as_py() > 0


def _at(read: Read, view: View, inputs: Sequence[Input], stored: Stored) -> At:
    if read.kind == "state":
        relation = stored.relations[read.relation]
        return At(relation, -1 if stored.round is None else stored.round, relation.schema.names)
    one = next(one for one in inputs if one.relation.name == read.relation)
    return At(one.relation, one.before if read.kind == "before" else one.after, view.used_columns[read.relation])


def _bind(frames: Frames) -> None:
    for read, frame in frames.items():
        frame.createOrReplaceTempView(placeholder(read))


def _collect(reader: Reader, rendered: Rendered, frames: Frames, stored: Stored) -> dict[str, pa.Table]:
    """All outputs by one query, through Arrow."""
    _bind(frames)
    with _parts(reader, rendered):
        rows = to_arrow(reader.spark().sql(rendered.sql))
    return {name: _take(rows, name, relation) for name, relation in stored.relations.items()}


def _take(rows: pa.Table, output: str, relation: Relation) -> pa.Table:
    """The rows of one output: a struct column that is NULL where a row does not belong to it."""
    own = rows.filter(pc.is_valid(rows[output]))
    names = list(relation.schema.names)
    parts = pa.concat_arrays([pa.nulls(0, own[output].type), *own[output].chunks]).flatten()
    schema = rows_with_weight(relation.schema, names)
    table = fitted(pa.table([*parts, own[WEIGHT]], names=[*names, WEIGHT]), schema)
    return consolidate(table, names)


def _outputs(reader: Reader, rendered: Rendered, frames: Frames, stored: Stored) -> dict[str, DataFrame]:
    """Each output as a query of its own, for results that may be large."""
    _bind(frames)
    with _parts(reader, rendered):
        return {name: reader.spark().sql(rendered.parted.outputs[name].sql) for name in stored.relations}


def _parts(reader: Reader, rendered: Rendered) -> AbstractContextManager[None]:
    return computed_before(reader.spark(), [(placeholder(part.read), part.sql) for part in rendered.parted.parts])


def _minus(reader: Reader, rows: pa.Table, stored: Stored, name: str) -> pa.Table:
    if stored.round is None:
        return rows
    relation = stored.relations[name]
    names = list(relation.schema.names)
    old = to_arrow(reader.state(relation, stored.round, names)).cast(rows.schema)
    old = old.set_column(old.schema.get_field_index(WEIGHT), WEIGHT, pc.negate(old[WEIGHT]))
    return consolidate(pa.concat_tables([rows, old]), names)


def _minus_frame(reader: Reader, rows: DataFrame, stored: Stored, name: str) -> DataFrame:
    if stored.round is None:
        return rows
    relation = stored.relations[name]
    old = reader.state(relation, stored.round, relation.schema.names)
    return rows.unionByName(old.withColumn(WEIGHT, -F.col(WEIGHT)))


def _write_rows(outputs: Mapping[str, pa.Table], writers: Writers) -> Changes:
    segments = {
        name: [writers[name].write(rows, PENDING, PENDING)] if rows.num_rows else [] for name, rows in outputs.items()
    }
    return Changes(segments, *_counts(outputs[VIEW][WEIGHT]))


def _write_frames(outputs: Mapping[str, DataFrame], writers: Writers) -> Changes:
    """Spark writes the files, in parallel; they are taken over under the attempt's names."""
    segments: dict[str, list[Segment]] = {}
    inserted = deleted = 0
    for name, frame in outputs.items():
        columns = [column for column in frame.columns if column != WEIGHT]
        staging = writers[name].next_path().with_suffix(".staging")
        net(frame, columns).write.parquet(str(staging))
        files = [file for file in sorted(staging.glob("part-*.parquet")) if pq.read_metadata(file).num_rows]
        if name == VIEW:
            weights = pq.read_table(files, columns=[WEIGHT])[WEIGHT] if files else pa.chunked_array([], pa.int64())
            inserted, deleted = _counts(weights)
        segments[name] = writers[name].adopt(files, PENDING)
        shutil.rmtree(staging)
    return Changes(segments, inserted, deleted)


def _counts(weights: pa.ChunkedArray) -> tuple[int, int]:
    """Rows put in and rows taken out."""
    inserted = pc.sum(pc.max_element_wise(weights, 0)).as_py() or 0
    return inserted, inserted - (pc.sum(weights).as_py() or 0)
