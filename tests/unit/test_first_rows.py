"""The rows kept of a state number the same up to the limit, before and after any change of the touched ones."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.refresh.first_rows import first_rows
from penstock.views import First

Group = tuple[int, int | None, int]  # key, sum, how many values are in it
VALUES = st.integers(-5, 5)


def table(groups: list[Group]) -> pa.Table:
    keys, sums, counts = zip(*groups, strict=True) if groups else ((), (), ())
    exact = pa.array([None if one is None else Decimal(one) for one in sums], pa.decimal128(38, 0))
    return pa.table({"g": pa.array(keys, pa.int64()), "sum": exact, "n": pa.array(counts, pa.int64())})


def numbered(groups: list[Group], descending: bool, nulls_first: bool, count: int) -> list[Group]:
    """The first groups by sum, one without a value first or last, then by key."""

    def place(group: Group) -> tuple[bool, int, int]:
        key, total, values = group
        if total is None or values == 0:
            return not nulls_first, 0, key
        return nulls_first, -total if descending else total, key

    return sorted(groups, key=place)[:count]


@given(
    before=st.dictionaries(st.integers(0, 30), st.tuples(VALUES | st.none(), st.integers(0, 2)), max_size=20),
    changed=st.dictionaries(st.integers(0, 30), st.none() | st.tuples(VALUES, st.integers(0, 2)), max_size=8),
    count=st.integers(0, 4),
    descending=st.booleans(),
    nulls_first=st.booleans(),
)
def test_the_first_ones_are_the_same(
    before: dict[int, tuple[int | None, int]],
    changed: dict[int, tuple[int, int] | None],
    count: int,
    descending: bool,
    nulls_first: bool,
) -> None:
    groups = [(key, *rest) for key, rest in before.items()]
    new = [(key, *rest) for key, rest in changed.items() if rest is not None]
    touched = pa.table({"g": pa.array(list(changed), pa.int64())})
    found = first_rows(table(groups), [touched], [First(count, "sum", descending, "n")])
    kept: list[Group] = [(one["g"], one["sum"], one["n"]) for one in found.to_pylist()]

    for rows, expected in ((kept, groups), (_after(kept, changed, new), _after(groups, changed, new))):
        assert numbered(rows, descending, nulls_first, count) == numbered(expected, descending, nulls_first, count)


def _after(rows: list[Group], changed: dict[int, tuple[int, int] | None], new: list[Group]) -> list[Group]:
    return [row for row in rows if row[0] not in changed] + new


def test_few_of_many_are_kept() -> None:
    rows = table([(key, key, 1) for key in range(1000)])
    assert first_rows(rows, [], [First(10, "sum", True)]).num_rows == 10
    assert first_rows(rows, [pa.table({"g": [1, 2]})], [First(10, "sum", True)]).num_rows == 14
