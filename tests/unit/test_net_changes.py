"""Changes that are kept in memory are those that reading them again would give."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.net_changes import NetChanges, PlainChanges

ROWS = [(position, position % 4, 1 if position % 3 else -1) for position in range(1, 60)]


def read(after: int, until: int) -> pa.Table:
    own = [row for row in ROWS if after < row[0] <= until]
    return pa.table(
        {"k": pa.array([k for _, k, _ in own], pa.int64()), "_weight": pa.array([w for _, _, w in own], pa.int64())}
    )


def summed(rows: pa.Table) -> dict[int, int]:
    found: Counter[int] = Counter()
    for row in rows.to_pylist():
        found[row["k"]] += row["_weight"]
    return {key: weight for key, weight in found.items() if weight}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60)), max_size=30), st.integers(5, 60))
def test_any_order_of_ranges(ranges: list[tuple[int, int]], most: int) -> None:
    net, plain = NetChanges(), PlainChanges(most)
    for after, until in ranges:
        until = max(after, until)
        there = read(after, until)
        assert summed(net.get((1, 1), after, until, ["k"], read)) == summed(there)
        kept = plain.get((1, 1), after, until, lambda a, b: read(a, b).num_rows, read)
        if there.num_rows > most:
            assert kept is None
        else:
            assert kept is not None
            assert sorted(map(str, kept.to_pylist())) == sorted(map(str, there.to_pylist()))


def test_what_is_known_is_not_read_again() -> None:
    asked: list[tuple[int, int]] = []

    def reading(after: int, until: int) -> pa.Table:
        asked.append((after, until))
        return read(after, until)

    plain = PlainChanges(1000)
    for until in (10, 20, 20, 10, 15, 20):
        plain.get((1, 1), 0, until, lambda a, b: read(a, b).num_rows, reading)
    assert asked == [(0, 10), (10, 20), (10, 15)]
