"""Rows of an older shape in a newer one, and what it takes to bring a Delta table there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.lake.delta_schema import alterations
from penstock.relation.schema import Column, Schema, encoded
from penstock.relation.translation import Translation
from penstock.relation.types import PgType

INT, BIG, TEXT = PgType(23, -1, "integer"), PgType(20, -1, "bigint"), PgType(25, -1, "text")


def schema(*columns: tuple[str, int, PgType], missing: dict[str, int] | None = None) -> Schema:
    made = []
    for name, number, pg in columns:
        given = (missing or {}).get(name)
        value = None if given is None else encoded(pa.array([given], pg.arrow))
        made.append(Column(name, pg, Column.of(name, pg).spark, number, missing=value))
    return Schema(tuple(made), ("id",))


OLD = schema(("id", 1, INT), ("a", 2, TEXT), ("b", 3, INT))


def test_rows_follow_their_columns() -> None:
    new = schema(("id", 1, INT), ("a", 3, BIG), ("c", 4, INT), ("d", 5, INT), missing={"c": 7})
    way = Translation(OLD, new)
    rows = pa.table({"id": [1, 2], "a": ["x", None], "b": [10, None], "_weight": [1, -1]})
    rows = rows.cast(pa.schema([*OLD.arrow(), pa.field("_weight", pa.int64())]))
    assert way.rows(rows, new.names, ["_weight"]).to_pydict() == {
        "id": [1, 2], "a": [10, None], "c": [7, 7], "d": [None, None], "_weight": [1, -1],
    }  # fmt: skip
    assert way.rows(rows, ["c"]).schema == new.arrow(["c"])
    assert way.sources(["a", "c", "id"]) == ["b", "id"]
    assert way.identical == {"id"}
    assert way.lost is None
    assert way.keys(pa.table({"a": pa.array([5], pa.int64())})).to_pydict() == {"b": [5]}
    assert Translation(new, OLD).lost == "b is held as int, was bigint"


def test_what_the_wal_left_out_moves_with_its_column() -> None:
    new = schema(("id", 1, INT), ("b", 3, INT), ("c", 4, INT), missing={"c": 7})
    raw = OLD.arrow_raw().empty_table().to_pydict()
    given = {**raw, "id": [1, 2], "a": [None, "x"], "b": [None, 5], "_absent": ["1,2", "1"]}
    given |= {name: [0, 0] for name in ("_weight", "_lsn", "_ts", "_xid", "_seq")} | {"_op": ["D", "U"]}
    made = Translation(OLD, new).raw(pa.table(given, schema=OLD.arrow_raw()))
    assert made["_absent"].to_pylist() == ["1", None]
    assert made["c"].to_pylist() == [7, 7]


@pytest.mark.parametrize(
    ("new", "present", "steps"),
    [
        ([("id", 1, INT), ("x", 3, INT), ("n", 9, TEXT)], ["id", "a", "b"],
         ["DROP COLUMN `a`", "RENAME COLUMN `b` TO `x`", "ADD COLUMNS (`n` string)"]),
        ([("id", 1, INT), ("x", 3, INT), ("n", 9, TEXT)], ["id", "x"], ["ADD COLUMNS (`n` string)"]),
        ([("id", 1, INT), ("a", 3, INT)], ["id", "a", "b"], None),
        ([("id", 1, INT), ("b", 2, TEXT), ("a", 3, INT)], ["id", "a", "b"], None),
        ([("id", 1, INT), ("a", 2, TEXT), ("b", 3, BIG)], ["id", "a", "b"], None),
        ([("id", 1, INT), ("a", 2, TEXT), ("b", 3, INT)], ["id", "a", "b"], []),
    ],
    ids=["all at once", "half-way", "a name for another column", "swapped", "wider", "nothing"],
)  # fmt: skip
def test_a_delta_table_is_altered_or_written_anew(
    new: list[tuple[str, int, PgType]], present: list[str], steps: list[str] | None
) -> None:
    assert alterations(Translation(OLD, schema(*new)), present) == steps


def test_a_default_for_older_rows_needs_the_table_written_anew() -> None:
    new = schema(("id", 1, INT), ("a", 2, TEXT), ("b", 3, INT), ("c", 4, INT), missing={"c": 7})
    assert alterations(Translation(OLD, new), OLD.names) is None
