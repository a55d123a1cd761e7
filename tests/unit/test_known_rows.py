"""What keys tell of the rows of a table, with what is looked up beside it, is what the table has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.refresh.known_rows import Key, OwnKey, ParentKey, told
from penstock.views import Match, Reach, Read
from penstock.views.algebra import Form

Line = tuple[int | None, ...]  # id, order, product, something
Z = Counter[Line]

NAMES = ("id", "order_id", "product_id", "note")
DELTA_O, DELTA_P, DELTA_L = (Read("delta", name) for name in ("orders", "products", "lines"))
BY_ORDER = Match(("order_id",), DELTA_O, ("id",))
BY_PRODUCT = Match(("product_id",), DELTA_P, ("id",))
BY_ID = Match(("id",), DELTA_P, ("id",))
SAME_ORDER = Match(("order_id",), DELTA_L, ("order_id",))
MATCHES = (BY_ORDER, BY_PRODUCT, BY_ID, SAME_ORDER)
OWN = OwnKey("lines", ("id",))
BY_KEY: list[Key] = [
    ParentKey("lines", ("order_id",), "orders", ("id",)),
    ParentKey("lines", ("product_id",), "products", ("id",)),
    OWN,
]


def lines(rows: Z) -> pa.Table:
    found = [(*row, weight) for row, weight in rows.items() if weight]
    types = [pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.int64()]
    columns = [pa.array([row[place] for row in found], kind) for place, kind in enumerate(types)]
    return pa.table(columns, [*NAMES, "_weight"])


def parents(before: set[int], after: set[int], updated: set[int]) -> pa.Table:
    rows = [(one, "old", -1) for one in before - after | updated] + [
        (one, "new", 1) for one in after - before | updated
    ]
    columns = (pa.array([row[i] for row in rows], kind) for i, kind in enumerate((pa.int32(), pa.string(), pa.int64())))
    return pa.table(list(columns), ["id", "name", "_weight"])


def minus(left: Z, right: Z) -> Z:
    total = Z(left)
    total.subtract(right)
    return total


def netted(table: pa.Table) -> Z:
    total = Z()
    for row in table.select([*NAMES, "_weight"]).to_pylist():
        *values, weight = row.values()
        total[tuple(values)] += weight
    return total


def some_lines(random: Random, orders: set[int], products: set[int], ids: Iterable[int]) -> Z:
    order_ids, product_ids = [None, *orders], [None, *products]
    return Z((one, random.choice(order_ids), random.choice(product_ids), random.randrange(2)) for one in ids)


def some(random: Random, among: Iterable[int]) -> set[int]:
    return {one for one in among if random.random() < 0.5}


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**9),
    form=st.sampled_from(["before", "after"]),
    matches=st.sets(st.sampled_from(MATCHES), min_size=1),
    keys=st.sets(st.sampled_from(BY_KEY), min_size=1),
)
def test_told_and_looked_up_are_all_rows(seed: int, form: Form, matches: set[Match], keys: set[Key]) -> None:
    random = Random(seed)
    orders0, orders1, products0, products1 = (some(random, range(6)) for _ in range(4))
    before = some_lines(random, orders0, products0, some(random, range(12)))
    fits = {r for r in before if r[1] in {None, *orders1} and r[2] in {None, *products1} and random.random() < 0.7}
    free = some(random, range(12)) - {row[0] for row in fits}
    after = some_lines(random, orders1, products1, free) + Z(fits)
    changed_orders = parents(orders0, orders1, some(random, orders0 & orders1))
    changed_products = parents(products0, products1, some(random, products0 & products1))
    known = {DELTA_O: changed_orders, DELTA_P: changed_products, DELTA_L: lines(minus(after, before))}
    reached = Reach(Read(form, "lines"), tuple(sorted(matches, key=repr)))

    answer = told(reached, sorted(keys, key=repr), known, lines(Z()))

    asked = {match: known[match.by].select(list(match.by_columns)) for match in reached.matches}
    left = asked if answer is None else asked | dict(answer.left)
    state = before if form == "before" else after
    found = _with(state, left)
    if answer is not None:
        assert all(left[match].num_rows <= asked[match].num_rows for match in matches)
        looked_up = [values.rename_columns(list(match.columns)) for match, values in left.items()]
        found += netted(answer.beside([values for values in looked_up if values.num_rows]))
    assert _with(found, asked) == _with(state, asked)
    assert all(state[row] == weight for row, weight in found.items())


def _with(rows: Z, wanted: dict[Match, pa.Table]) -> Z:
    values = [(NAMES.index(match.columns[0]), set(table.columns[0].to_pylist())) for match, table in wanted.items()]
    return Z({row: n for row, n in rows.items() if n and any(row[place] in these for place, these in values)})


def test_a_key_that_changed_is_not_looked_up() -> None:
    known = {
        DELTA_L: lines(Z({(1, None, None, 0): -1, (1, None, None, 1): 1, (2, None, None, 0): 1})),
        DELTA_P: parents({3}, {1, 2}, set()),
    }
    answer = told(Reach(Read("before", "lines"), (BY_ID,)), [OWN], known, lines(Z()))
    assert answer is not None
    assert answer.left[BY_ID].to_pydict() == {"id": [3]}
    assert answer.beside([]).to_pylist() == [{"id": 1, "order_id": None, "product_id": None, "note": 0, "_weight": 1}]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (Z({(9, 1, None, 0): -1}), BY_ORDER),  # order 1 came, yet a line of it was there before
        (Z({(9, 2, None, 0): 1}), BY_ORDER),  # order 2 went, yet it gets a line
        (Z({(9, 2, None, 0): -1, (9, 2, None, 1): -1}), BY_ID),  # two rows of one key
        (Z({(None, 2, None, 0): -1}), BY_ID),
    ],
)
def test_changes_that_contradict_the_key_tell_nothing(changed: Z, match: Match) -> None:
    known = {DELTA_O: parents({2}, {1}, set()), DELTA_P: parents({2}, {9}, set()), DELTA_L: lines(changed)}
    keys = [key for key in BY_KEY if key.columns == match.columns]
    assert told(Reach(Read("after", "lines"), (match,)), keys, known, lines(Z())) is None


@pytest.mark.parametrize(
    ("reach", "keys"),
    [
        (Reach(Read("after", "lines"), (BY_ORDER,)), BY_KEY[1:]),
        (Reach(Read("state", "lines"), (BY_ORDER,)), BY_KEY),
        (Reach(Read("after", "lines"), (Match(("product_id",), DELTA_O, ("id",)),)), BY_KEY),
        (Reach(Read("after", "lines"), (Match(("id", "note"), DELTA_O, ("id", "id")),)), BY_KEY),
        (Reach(Read("after", "orders"), (Match(("id",), DELTA_O, ("id",)),)), [OWN]),
    ],
)
def test_only_the_key_itself_tells(reach: Reach, keys: Sequence[Key]) -> None:
    known = {DELTA_O: parents({2}, {1}, set())}
    assert told(reach, keys, known, lines(Z())) is None


def test_a_table_without_changes_has_nothing_of_parents_that_moved() -> None:
    known = {DELTA_O: parents({2, 3}, {1, 3}, {3})}
    answer = told(Reach(Read("after", "lines"), (BY_ORDER,)), BY_KEY[:1], known, lines(Z()))
    assert answer is not None
    assert answer.left[BY_ORDER].to_pydict() == {"order_id": [3, 3]}
    assert answer.beside([]).num_rows == 0
