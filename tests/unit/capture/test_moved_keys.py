"""Ranges of two snapshots and the correction between them add up to the table at the second, however rows moved."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.capture.moved_keys import can_be_read_by_key, distinct_keys, first_of_each, taken_back
from penstock.relation.schema import Column, Schema
from penstock.relation.types import PgType
from penstock.zset import WEIGHT, consolidate

INT, TEXT = PgType(23, -1, "integer"), PgType(25, -1, "text")
SCHEMA = Schema((Column.of("a", INT), Column.of("b", TEXT), Column.of("v", INT)), key=("a", "b"))
BLOCKS = 4


@dataclass(frozen=True)
class Place:
    """A row version: where it is stored, and what it holds."""

    block: int
    value: int


Key = tuple[int, str]
Table = dict[Key, Place]
keys = st.tuples(st.integers(0, 4), st.sampled_from("xy"))
places = st.builds(Place, st.integers(0, BLOCKS - 1), st.integers(0, 9))
# A change: this key is gone, is (again) there, or has become another one.
changes = st.lists(st.tuples(keys, st.sampled_from(["delete", "put", "rename"]), places, keys), max_size=12)


def changed(table: Table, steps: list[tuple[Key, str, Place, Key]]) -> tuple[Table, list[Key]]:
    """The table afterwards, and every key in its change rows."""
    after, touched = dict(table), []
    for key, kind, place, other in steps:
        if kind == "put":
            after[key] = place
            touched.append(key)
        elif key in after and kind == "delete":
            del after[key]
            touched.append(key)
        elif key in after and kind == "rename" and other not in after:
            del after[key]
            after[other] = place
            touched += [key, other]
    return after, touched


def rows(table: Table, lsn: int, blocks: set[int]) -> pa.Table:
    """A copy of some blocks."""
    found = [(*key, place.value) for key, place in table.items() if place.block in blocks]
    columns = [pa.array([row[place] for row in found], field.type) for place, field in enumerate(SCHEMA.arrow())]
    beside = [pa.array([value] * len(found), pa.int64()) for value in (1, lsn)]
    return pa.table([*columns, *beside], names=[*SCHEMA.names, WEIGHT, "_lsn"])


@given(st.dictionaries(keys, places), changes, st.sets(st.integers(0, BLOCKS - 1)))
def test_the_sum_is_the_table_at_the_newer_snapshot(
    before: Table, steps: list[tuple[Key, str, Place, Key]], finished: set[int]
) -> None:
    after, touched = changed(before, steps)
    everything = set(range(BLOCKS))
    files = [rows(before, 10, finished), rows(after, 20, everything - finished)]
    columns = [pa.array([key[place] for key in touched], SCHEMA.arrow().field(place).type) for place in range(2)]
    moved = distinct_keys([pa.table(columns, names=["a", "b"])], SCHEMA)
    again = rows({key: place for key, place in after.items() if key in set(touched)}, 20, everything)
    taken = [taken_back(file, moved, 20) for file in files]
    total = consolidate(pa.concat_tables([*files, *taken, first_of_each(again, SCHEMA)]), SCHEMA.names)
    assert sorted(map(tuple, zip(*total.to_pydict().values(), strict=True))) == sorted(
        (*key, place.value, 1) for key, place in after.items()
    )
    assert all(lsn == 20 for part in taken for lsn in part["_lsn"].to_pylist())


def test_a_key_once_and_a_row_of_each_key_once() -> None:
    twice = pa.table({"a": pa.array([1, 2, 1], pa.int32()), "b": ["x", "x", "x"], "v": pa.array([1, 2, 3], pa.int32())})
    assert distinct_keys([twice, twice], SCHEMA).to_pydict() == {"a": [1, 2], "b": ["x", "x"]}
    assert first_of_each(twice, SCHEMA)["v"].to_pylist() == [1, 2]
    assert distinct_keys([], SCHEMA).num_rows == 0


def test_only_keys_of_types_that_postgres_brings_are_asked_for() -> None:
    assert can_be_read_by_key(SCHEMA)
    assert not can_be_read_by_key(Schema(SCHEMA.columns))
    own = Column.of("k", PgType(20000, -1, "public.citext"))
    assert not can_be_read_by_key(Schema((own,), key=("k",)))
    real = Column.of("k", PgType(701, -1, "double precision"))
    assert not can_be_read_by_key(Schema((real,), key=("k",)))
