"""Sums of weighted rows with lists and structs are those of the rows written as text."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.relation.types import INTERVAL, list_of
from penstock.zset import WEIGHT, consolidate

spans = (st.none() | st.integers(0, 1)).map(lambda months: {"months": months, "days": 1, "microseconds": 2})
rows = st.lists(
    st.fixed_dictionaries({
        "k": st.none() | st.integers(0, 1),
        "list": st.none() | st.lists(st.none() | st.sampled_from(["", "a", "aa"]), max_size=2),
        "span": st.none() | spans,
        "spans": st.none() | st.lists(st.none() | spans, max_size=1),
        WEIGHT: st.integers(-1, 1),
    }),
    max_size=30,
)  # fmt: skip
SCHEMA = pa.schema([
    ("k", pa.int64()), ("list", list_of(pa.string())), ("span", INTERVAL), ("spans", list_of(INTERVAL)),
    (WEIGHT, pa.int64()),
])  # fmt: skip


@given(rows, st.integers(0, 5))
def test_equal_lists_and_structs_add_up(found: list[dict[str, object]], skipped: int) -> None:
    table = pa.Table.from_pylist(found, SCHEMA).slice(skipped)  # a slice begins inside its buffers
    expected: Counter[str] = Counter()
    for row in found[skipped:]:
        expected[str([row[name] for name in SCHEMA.names[:-1]])] += int(row[WEIGHT])  # type: ignore[call-overload]
    summed = consolidate(table, SCHEMA.names[:-1])
    assert summed.schema == SCHEMA
    actual = {str(list(row.values())[:-1]): row[WEIGHT] for row in summed.to_pylist()}
    assert actual == {key: weight for key, weight in expected.items() if weight}
