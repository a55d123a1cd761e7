"""What a delta program reads, as Spark frames: changes and the reached rows of states from memory, the rest from files.

The changes are known before anything is planned. Where only the rows matter that they reach (`views/reach.py`), those
are looked up without Spark, and Spark gets them as a small table: it scans nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.catalog.relations import Relation
from penstock.fitted import fitted
from penstock.lake.partial_state import partial_state, whole_state
from penstock.lake.reader import Reader
from penstock.refresh import answers
from penstock.refresh.answers import Answer
from penstock.refresh.first_rows import first_rows
from penstock.refresh.key_ranges import inside, ranges, text
from penstock.refresh.known_rows import Key, told
from penstock.relation.segment import rows_with_weight
from penstock.views import TERM, Match, Program, Reach, Read
from penstock.zset import WEIGHT, consolidate

Frames = Mapping[Read, DataFrame]
Known = Mapping[Read, pa.Table]

EVERYTHING: Mapping[Match, pa.Table] = {}
_TERM = pa.field(TERM, pa.int32(), nullable=False)


@dataclass(frozen=True)
class At:
    """A relation at a position, and the columns that are read of it."""

    relation: Relation
    position: int
    columns: tuple[str, ...]


def in_memory(
    reader: Reader,
    program: Program,
    deltas: Mapping[Read, pa.Table | DataFrame],
    states: Mapping[Read, At],
    keys: Sequence[Key] = (),
) -> tuple[Known, list[Answer]]:
    """The reads of the program that are few rows, without Spark, and how all are answered; `keys` are those that
    hold."""
    known = {read: rows for read, rows in deltas.items() if isinstance(rows, pa.Table)}
    found = [answers.changed(read, known[read].num_rows if read in known else None) for read in deltas]
    keys = [key for key in keys if Read("delta", key.relation) in known or Read("delta", key.relation) not in deltas]
    for reached in program.reach:
        rows, answer = _reached(reader, reached, known, states[reached.read], keys)
        if rows is not None:
            known[reached.read] = rows
        found.append(answer)
    listed = {answer.read for answer in found}
    whole = sorted(program.reads - listed, key=str)
    if program.reads - set(whole) <= known.keys() and (few := _all_few(reader, whole, states)) is not None:
        return known | few, found + [answers.read_whole(read, rows.num_rows) for read, rows in few.items()]
    return known, found + [answers.scanned(read, "", "nothing ties its rows to the changes") for read in whole]


def _all_few(reader: Reader, whole: Sequence[Read], states: Mapping[Read, At]) -> dict[Read, pa.Table] | None:
    """The rows of all of these; None if one has many, which Spark scans, and then the others too."""
    found: dict[Read, pa.Table] = {}
    for read in whole:
        at = states[read]
        rows = whole_state(reader, at.relation, at.position, at.columns)
        if rows is None:
            return None
        found[read] = rows
    return found


def frames_in_memory(reader: Reader, program: Program, known: Known, states: Mapping[Read, At]) -> Frames:
    """A frame per read of a program for reads that are all in memory, each in one partition."""
    found: dict[Read, DataFrame] = {}
    for read in program.reads:
        forms = [Read(form, read.relation) for form in read.forms] or [read]
        at = states[forms[0]]
        rows = [known[form].select([*at.columns, WEIGHT]) for form in forms]
        if read.forms:
            rows = [one.append_column(_TERM, _number(place, one)) for place, one in enumerate(rows)]
        more = {TERM: "int"} if read.forms else {}
        found[read] = reader.frame(pa.concat_tables(rows), at.relation, at.columns, more).coalesce(1)
    return found


def _number(place: int, rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(place, pa.int32()), rows.num_rows)


def frames(
    reader: Reader,
    program: Program,
    known: Known,
    deltas: Mapping[Read, pa.Table | DataFrame],
    states: Mapping[Read, At],
) -> Frames:
    """A frame per read of the program; `states` says where each read that is not a delta is to be found."""
    found: dict[Read, DataFrame] = {}
    for read in program.reads:
        at = states[read]
        if read in known:
            found[read] = reader.frame(known[read], at.relation, at.columns)
        elif read in deltas:
            found[read] = deltas[read]
        else:
            found[read] = _state(reader, read, program, known, at)
    return found


def _state(reader: Reader, read: Read, program: Program, known: Known, at: At) -> DataFrame:
    """The state, as far as the range of what reaches it goes."""
    rows = reader.state(at.relation, at.position, at.columns)
    for reached in program.reach:
        if reached.read == read and not reached.first and all(match.by in known for match in reached.matches):
            boxes = ranges(wanted_values(reached, known, at.relation))
            return rows.where(inside(boxes)) if boxes else rows
    return rows


def _reached(
    reader: Reader, reached: Reach, known: Known, at: At, keys: Sequence[Key]
) -> tuple[pa.Table | None, Answer]:
    missing = [match.by for match in reached.matches if match.by not in known]
    if missing:
        why = f"tied to {missing[0].kind} of {missing[0].relation}, which is not in memory"
        return None, answers.scanned(reached.read, "", why)
    if reached.first:
        return _first_rows(reader, reached, known, at)
    schema = rows_with_weight(at.relation.schema, at.columns)
    answer = told(reached, keys, known, schema.empty_table())
    wanted = wanted_values(reached, known, at.relation, {} if answer is None else answer.left)
    rows = partial_state(reader, at.relation, at.position, at.columns, wanted) if wanted else schema.empty_table()
    values = sum(each.num_rows for each in wanted)
    if rows is None:
        why = f"too many rows to look up {values:,} values in"
        return None, answers.scanned(reached.read, text(ranges(wanted)), why)
    beside = None if answer is None else fitted(answer.beside(wanted).select(schema.names), schema)
    whole = rows if beside is None else pa.concat_tables([rows, beside])
    columns = [", ".join(each.column_names) for each in wanted]
    by_key = None if beside is None else beside.num_rows
    return whole, answers.looked_up(reached.read, columns, values, whole.num_rows, by_key)


def _first_rows(reader: Reader, reached: Reach, known: Known, at: At) -> tuple[pa.Table | None, Answer]:
    rows = whole_state(reader, at.relation, at.position, at.columns)
    if rows is None:
        return None, answers.scanned(reached.read, "", "too many rows to look for the first ones in")
    found = first_rows(consolidate(rows, at.columns), wanted_values(reached, known, at.relation), reached.first)
    return found, answers.first_of(reached.read, found.num_rows, rows.num_rows)


def wanted_values(
    reached: Reach, known: Known, relation: Relation, left: Mapping[Match, pa.Table] = EVERYTHING
) -> list[pa.Table]:
    """The values to look for: a table per set of columns; of a match, those that are `left`."""
    found: dict[tuple[str, ...], list[pa.Table]] = {}
    for match in reached.matches:
        values = left.get(match)
        if values is None:
            values = known[match.by].select(list(match.by_columns)).rename_columns(list(match.columns))
        values = fitted(values, relation.schema.arrow(match.columns))
        found.setdefault(match.columns, []).append(values if match.nulls else values.drop_null())
    wanted = [_distinct(pa.concat_tables(values), columns) for columns, values in found.items()]
    return [values for values in wanted if values.num_rows]


def _distinct(values: pa.Table, columns: Sequence[str]) -> pa.Table:
    return values.group_by(list(columns), use_threads=False).aggregate([]).select(list(columns))
