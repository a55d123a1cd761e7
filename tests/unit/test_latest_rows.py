"""What changes leave of each key, with what was there before, is what is there; those that do not fit tell nothing."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.latest_rows import LatestRows
from penstock.zset import WEIGHT

SCHEMA = pa.schema([("k", pa.int64()), ("part", pa.string()), ("v", pa.float64()), (WEIGHT, pa.int64())])
KEYS = pa.schema([("k", pa.int64()), ("part", pa.string())])
Row = tuple[int, int | None, str | None, float | None, int]  # position, then the columns
State = dict[tuple[int, str | None], float | None]

steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, "a"]), st.none() | st.integers(0, 2), st.booleans()),
    max_size=40,
)
lookups = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 41)), min_size=1, max_size=12)


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
    steps: list[tuple[int, str | None, int | None, bool]], lookups: list[tuple[int, int]], most: int
) -> None:
    (changes, states), latest = lived(steps), LatestRows(most)
    keys = pa.Table.from_pylist([{"k": k, "part": part} for k in range(4) for part in (None, "a")], KEYS)

    def read(after: int, until: int) -> pa.Table:
        return table([row for row in changes if after < row[0] <= until])

    end: dict[int, int] = {}
    for after, until in lookups:
        until = max(after, until)
        found = latest.find((1, 1), after, until, keys, lambda a, b: read(a, b).num_rows, read)
        if read(after, until).num_rows > most:
            end.pop(after, None)
            assert found is None
        elif until < end.get(after, after):
            assert found is None  # more is known already
        else:
            end[after] = until
            assert found is not None
            rows, left = ([tuple(row.values()) for row in each.to_pylist()] for each in found)
            before, now = (states[min(position, len(steps))] for position in (after, until))
            assert {(k, part): v for k, part, v in rows} | {key: before[key] for key in left if key in before} == now
            assert len(rows) == len({row[:2] for row in rows})


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
        assert (
            latest.find((1, 1), 0, 5, keys, lambda a, b: 2, lambda a, b, t=given: t.slice(0, 0 if b == 0 else 9))
            is None
        )
        assert latest.end((1, 1), 0) is None


def test_keys_that_are_no_numbers_or_texts_are_left_to_the_sum() -> None:
    keys = pa.table({"v": [1.0]})
    assert LatestRows(100).find((1, 1), 0, 5, keys, lambda a, b: 0, lambda a, b: table([])) is None
