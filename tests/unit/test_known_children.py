"""What foreign keys tell of children, with what is looked up beside it, is what the table has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.refresh.known_children import ParentKey, told
from penstock.views import Match, Reach, Read
from penstock.views.algebra import Form

Child = tuple[int | None, int | None, str]  # order, product, something
Z = Counter[Child]

DELTA_O, DELTA_P, DELTA_L = (Read("delta", name) for name in ("orders", "products", "lines"))
BY_ORDER = Match(("order_id",), DELTA_O, ("id",))
BY_PRODUCT = Match(("product_id",), DELTA_P, ("id",))
KEYS = [ParentKey("lines", ("order_id",), "orders", ("id",)), ParentKey("lines", ("product_id",), "products", ("id",))]


def lines(rows: Z) -> pa.Table:
    given = [(*row, weight) for row, weight in rows.items() if weight]
    types = [pa.int32(), pa.int32(), pa.string(), pa.int64()]
    names = ["order_id", "product_id", "note", "_weight"]
    return pa.table([pa.array([row[i] for row in given], types[i]) for i in range(4)], names)


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


def netted(table: pa.Table) -> dict[Child, int]:
    total = Z()
    for row in table.select(["order_id", "product_id", "note", "_weight"]).to_pylist():
        *values, weight = row.values()
        total[tuple(values)] += weight  # type: ignore[index]
    return {row: weight for row, weight in total.items() if weight}


def some_lines(random: Random, orders: set[int], products: set[int]) -> Z:
    order_ids, product_ids = [None, *orders], [None, *products]
    return Z(
        (random.choice(order_ids), random.choice(product_ids), random.choice("ab"))
        for _ in range(random.randint(0, 12))
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**9), form=st.sampled_from(["before", "after"]), both=st.booleans())
def test_told_and_looked_up_are_all_rows(seed: int, form: Form, both: bool) -> None:
    random = Random(seed)
    ids = range(6)
    orders0, orders1, products0, products1 = ({i for i in ids if random.random() < 0.5} for _ in range(4))
    before, after = some_lines(random, orders0, products0), some_lines(random, orders1, products1)
    kept = Z({r: n for r, n in before.items() if r[0] in {None, *orders1} and r[1] in {None, *products1}})
    after += kept
    changed_orders = parents(orders0, orders1, {i for i in orders0 & orders1 if random.random() < 0.5})
    changed_products = parents(products0, products1, {i for i in products0 & products1 if random.random() < 0.5})
    matches = (BY_ORDER, BY_PRODUCT) if both else (BY_ORDER,)
    known = {DELTA_O: changed_orders, DELTA_P: changed_products, DELTA_L: lines(minus(after, before))}

    answer = told(Reach(Read(form, "lines"), matches), KEYS, known, lines(Z()))

    assert answer is not None
    state = before if form == "before" else after
    wanted = [(match.columns[0], set(values[match.columns[0]].to_pylist())) for match, values in answer.left.items()]
    found = _with(state, wanted)
    total = Counter(found)
    total.update(netted(answer.beside([values for values in answer.left.values() if values.num_rows])))
    changed = [("order_id", set(changed_orders["id"].to_pylist()))]
    changed += [("product_id", set(changed_products["id"].to_pylist()))] if both else []
    assert {row: n for row, n in total.items() if n} == _with(state, changed)


def _with(rows: Z, wanted: Sequence[tuple[str, set[int]]]) -> dict[Child, int]:
    place = {"order_id": 0, "product_id": 1}
    return {row: n for row, n in rows.items() if n and any(row[place[name]] in values for name, values in wanted)}


@pytest.mark.parametrize(
    "changed",
    [
        Z({(1, None, "a"): -1}),  # order 1 came, yet a line of it was there before
        Z({(2, None, "a"): 1}),  # order 2 went, yet it gets a line
    ],
)
def test_changes_that_contradict_the_key_tell_nothing(changed: Z) -> None:
    known = {DELTA_O: parents({2}, {1}, set()), DELTA_L: lines(changed)}
    assert told(Reach(Read("after", "lines"), (BY_ORDER,)), KEYS, known, lines(Z())) is None


@pytest.mark.parametrize(
    ("reach", "keys"),
    [
        (Reach(Read("after", "lines"), (BY_ORDER,)), KEYS[1:]),
        (Reach(Read("state", "lines"), (BY_ORDER,)), KEYS),
        (Reach(Read("after", "lines"), (Match(("order_id",), Read("after", "orders"), ("id",)),)), KEYS),
        (Reach(Read("after", "lines"), (Match(("product_id",), DELTA_O, ("id",)),)), KEYS),
        (Reach(Read("after", "lines"), (Match(("order_id",), DELTA_O, ("name",)),)), KEYS),
    ],
)
def test_only_the_key_itself_tells(reach: Reach, keys: Sequence[ParentKey]) -> None:
    known = {DELTA_O: parents({2}, {1}, set())}
    assert told(reach, keys, known, lines(Z())) is None


def test_a_table_without_changes_has_nothing_of_parents_that_moved() -> None:
    known = {DELTA_O: parents({2, 3}, {1, 3}, {3})}
    answer = told(Reach(Read("after", "lines"), (BY_ORDER,)), KEYS, known, lines(Z()))
    assert answer is not None
    assert answer.left[BY_ORDER].to_pydict() == {"order_id": [3]}
    assert answer.beside([]).num_rows == 0
