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
from penstock.lake.partial_state import partial_state
from penstock.lake.reader import Reader
from penstock.views import TERM, Program, Reach, Read
from penstock.zset import WEIGHT

Frames = Mapping[Read, DataFrame]
Known = Mapping[Read, pa.Table]

_TERM = pa.field(TERM, pa.int32(), nullable=False)


@dataclass(frozen=True)
class At:
    """A relation at a position, and the columns that are read of it."""

    relation: Relation
    position: int
    columns: tuple[str, ...]


def in_memory(
    reader: Reader, program: Program, deltas: Mapping[Read, pa.Table | DataFrame], states: Mapping[Read, At]
) -> Known:
    """The reads of the program that are few rows, without Spark."""
    known = {read: rows for read, rows in deltas.items() if isinstance(rows, pa.Table)}
    for reached in program.reach:
        if (rows := _reached(reader, reached, known, states[reached.read])) is not None:
            known[reached.read] = rows
    return known


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
            found[read] = reader.state(at.relation, at.position, at.columns)
    return found


def _reached(reader: Reader, reached: Reach, known: Mapping[Read, pa.Table], at: At) -> pa.Table | None:
    if not all(match.by in known for match in reached.matches):
        return None
    return partial_state(reader, at.relation, at.position, at.columns, wanted_values(reached, known, at.relation))


def wanted_values(reached: Reach, known: Mapping[Read, pa.Table], relation: Relation) -> list[pa.Table]:
    """The values to look for: a table per set of columns."""
    found: dict[tuple[str, ...], list[pa.Table]] = {}
    for match in reached.matches:
        values = known[match.by].select(list(match.by_columns)).rename_columns(list(match.columns))
        values = values.cast(relation.schema.arrow(match.columns))
        found.setdefault(match.columns, []).append(values if match.nulls else values.drop_null())
    return [_distinct(pa.concat_tables(values), columns) for columns, values in found.items()]


def _distinct(values: pa.Table, columns: Sequence[str]) -> pa.Table:
    return values.group_by(list(columns), use_threads=False).aggregate([]).select(list(columns))
