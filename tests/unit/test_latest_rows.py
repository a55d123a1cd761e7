"""What changes leave of each key, with what was there before, is what is there; those that do not fit tell nothing."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.latest_rows import LatestRows, Reading
from penstock.zset import WEIGHT

SCHEMA = pa.schema([("k", pa.int64()), ("part", pa.string()), ("v", pa.float64()), (WEIGHT, pa.int64())])
KEYS = pa.schema([("k", pa.int64()), ("part", pa.string())])
Row = tuple[int, int | None, str | None, float | None, int]  # position, then the columns
State = dict[tuple[int, str | None], float | None]

steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, "a"]), st.none() | st.integers(0, 2), st.booleans()),
    max_size=40,
)
lookups = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 41), st.booleans()), min_size=1, max_size=12)


def lived(steps: list[tuple[int, str | None, int | None, bool]]) -> tuple[list[Row], list[State]]:
    """Changes as they come of a life of rows, and what is there after each; some rows were there before."""
    there: State = {(0, "a"): 7.0, (1, None): None}
    rows: list[Row] = []
    states = [dict(there)]
    for position, (k, part, value, stays) in enumerate(steps, 1):
        went = (k, part) in there
        if went:
            rows.append((position, k, part, there.pop((k, part)), -1))
        if not went or stays:
            there[k, part] = None if value is None else float(value)
            rows.append((position, k, part, there[k, part], 1))
        states.append(dict(there))
    return rows, states


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row[1:], strict=True)) for row in rows], SCHEMA)


@given(steps, lookups, st.integers(1, 80))
def test_what_is_told_and_what_was_there_before_is_what_is_there(
    steps: list[tuple[int, str | None, int | None, bool]], lookups: list[tuple[int, int, bool]], most: int
) -> None:
    (changes, states), latest = lived(steps), LatestRows(most)
    keys = pa.Table.from_pylist([{"k": k, "part": part} for k in range(4) for part in (None, "a")], KEYS)

    def read(after: int, until: int) -> pa.Table:
        return table([row for row in changes if after < row[0] <= until])

    told = 0
    for base, until, few in lookups:
        until = max(base, until)
        before, now = (states[min(position, len(steps))] for position in (base, until))
        rows_then = [(base, k, part, v, 1) for (k, part), v in before.items()] if few else []
        reading = Reading(partial(table, rows_then), lambda a, b: read(a, b).num_rows, read)
        found = latest.find((1, 1), base, until, keys, reading)
        if found is None:
            continue
        told += 1
        rows, left = ([tuple(row.values()) for row in each.to_pylist()] for each in found)
        assert {(k, part): v for k, part, v in rows} | {key: before[key] for key in left if key in before} == now
        assert len(rows) == len({row[:2] for row in rows})
    assert told or len(changes) > most or lookups[0][0] > len(steps)


def test_changes_that_do_not_fit_together_tell_nothing() -> None:
    keys = pa.Table.from_pylist([{"k": 1, "part": "a"}], KEYS)
    for rows in (
        [(1, 1, "a", 1.0, 1), (2, 1, "a", 2.0, -1)],  # another row goes than came
        [(1, 1, "a", 1.0, 1), (2, 1, "a", 2.0, 1)],  # a second one comes
        [(1, 1, "a", 1.0, -1), (2, 1, "a", 1.0, -1)],
        [(1, 1, "a", 1.0, 2)],
    ):
        latest = LatestRows(100)
        given = table(list(rows))
        reading = Reading(
            given.schema.empty_table, lambda a, b: 2, lambda a, b, t=given: t.slice(0, 0 if b == 0 else 9)
        )
        assert latest.find((1, 1), 0, 5, keys, reading) is None
        assert latest.end((1, 1)) is None


def test_keys_that_are_no_numbers_or_texts_are_left_to_the_sum() -> None:
    keys = pa.table({"v": [1.0]})
    reading = Reading(SCHEMA.empty_table, lambda a, b: 0, lambda a, b: table([]))
    assert LatestRows(100).find((1, 1), 0, 5, keys, reading) is None
