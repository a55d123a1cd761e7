"""What changes leave of each key, with what was there before, is what is there; those that do not fit tell nothing."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.latest_rows import LatestRows, Reading, Stretch
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

    def look(after: int, until: int) -> Stretch:
        own = [row[0] for row in changes if after < row[0] <= until]
        return Stretch(len(own), max(own, default=after), in_order=True)

    told = 0
    for base, until, few in lookups:
        until = max(base, until)
        before, now = (states[min(position, len(steps))] for position in (base, until))
        rows_then = [(base, k, part, v, 1) for (k, part), v in before.items()] if few else []
        reading = Reading(len(rows_then), partial(table, rows_then), look, read)
        found = latest.find((1, 1), base, until, keys, reading)
        if found is None:
            continue
        told += 1
        rows, left = ([tuple(row.values()) for row in each.to_pylist()] for each in found)
        assert {(k, part): v for k, part, v in rows} | {key: before[key] for key in left if key in before} == now
        assert len(rows) == len({row[:2] for row in rows})
        assert latest.end((1, 1)) <= until
    assert told or len(changes) + len(states[0]) + len(steps) > most


def test_changes_that_do_not_fit_together_tell_nothing() -> None:
    keys = pa.Table.from_pylist([{"k": 1, "part": "a"}], KEYS)
    for rows in (
        [(1, 1, "a", 1.0, 1), (2, 1, "a", 2.0, -1)],  # another row goes than came
        [(1, 1, "a", 1.0, 1), (2, 1, "a", 2.0, 1)],  # a second one comes
        [(1, 1, "a", 1.0, -1), (2, 1, "a", 1.0, -1)],
        [(1, 1, "a", 1.0, 2)],
    ):
        latest, given = LatestRows(100), table(list(rows))
        for base, told in (
            (0, None),
            (0, None),
            (2, ([], [{"k": 1, "part": "a"}])),
        ):  # of a newer base, all is as it has it
            reading = _reading([], given if base == 0 else table([]))
            found = latest.find((1, 1), base, 5, keys, reading)
            assert (None if found is None else tuple(each.to_pylist() for each in found)) == told


def test_what_is_in_segments_of_one_position_or_too_much_tells_nothing() -> None:
    keys = pa.Table.from_pylist([{"k": 1, "part": "a"}], KEYS)
    there: list[Row] = [(1, 1, "a", 1.0, 1)]
    assert LatestRows(100).find((1, 1), 0, 5, keys, _reading([], table(there), in_order=False)) is None
    assert LatestRows(1).find((1, 1), 0, 5, keys, _reading([(0, 2, "a", 1.0, 1)], table(there))) is None
    assert LatestRows(2).find((1, 1), 0, 5, keys, _reading([(0, 2, "a", 1.0, 1)], table(there))) is not None


def test_what_is_put_behind_the_last_change_is_seen() -> None:
    """Nothing had been there up to where it was looked: somebody who repairs a table may still put something there."""
    keys, latest = pa.Table.from_pylist([{"k": 1, "part": "a"}], KEYS), LatestRows(100)
    rows: list[Row] = [(1, 1, "a", 1.0, 1)]

    def reading() -> Reading:
        def within(after: int, until: int) -> list[Row]:
            return [row for row in rows if after < row[0] <= until]

        return Reading(
            0, lambda: table([]),
            lambda a, b: Stretch(len(within(a, b)), max((row[0] for row in within(a, b)), default=a), in_order=True),
            lambda a, b: table(within(a, b)),
        )  # fmt: skip

    for value in (1.0, 2.0):
        found = latest.find((1, 1), 0, 900, keys, reading())
        assert found is not None
        assert found[0]["v"].to_pylist() == [value]
        rows += [(501, 1, "a", 1.0, -1), (501, 1, "a", 2.0, 1)]


def _reading(base: list[Row], changes: pa.Table, *, in_order: bool = True) -> Reading:
    """All changes are at one position."""
    return Reading(
        len(base), lambda: table(base),
        lambda a, b: Stretch(changes.num_rows if a < b else 0, 1, in_order),
        lambda a, b: changes if a < b else changes.slice(0, 0),
    )  # fmt: skip


def test_keys_that_are_no_numbers_or_texts_are_left_to_the_sum() -> None:
    keys = pa.table({"v": [1.0]})
    assert LatestRows(100).find((1, 1), 0, 5, keys, _reading([], table([]))) is None
