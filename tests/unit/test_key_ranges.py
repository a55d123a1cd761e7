"""The box around the values that changes reach."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from penstock.refresh.key_ranges import Range, ranges


def test_a_box_for_each_set_of_columns() -> None:
    by_order = pa.table({"order_id": [7, 3, 12]})
    by_day = pa.table({"day": [date(2024, 1, 2), date(2023, 5, 6)], "shop": ["a", "b"]})
    assert ranges([by_order, by_day]) == [
        {"order_id": Range(3, 12, null=False)},
        {"day": Range(date(2023, 5, 6), date(2024, 1, 2), null=False)},
    ]


def test_a_null_that_is_looked_for_is_inside() -> None:
    assert ranges([pa.table({"k": pa.array([4, None], pa.int64())})]) == [{"k": Range(4, 4, null=True)}]


@pytest.mark.parametrize("values", [pa.array(["a", "b"]), pa.array([1.5]), pa.array([None], pa.int32())])
def test_one_table_without_a_range_leaves_no_condition(values: pa.Array) -> None:
    assert ranges([pa.table({"id": [1]}), pa.table({"other": values})]) == []
