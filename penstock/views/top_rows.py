"""Which rows of a state can be among the first N by number, before or after a change: the best by one value.

Of the rows that were there, those with the N + r best values of the first ORDER BY expression, where r rows are touched
by the change, and the touched ones. Of the N + r at most r leave, so N of them are left; whatever is behind them all is
not among the first N, before or after, and leaving it out changes no number up to N. Rows without a value are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.views.algebra import Leaf, Net, Node, Project, Repeat, UnionAll, Window
from penstock.views.expr import Call, Col, Expr, Lit, kind, substitute

_ORDERED = frozenset({"int", "numeric", "date", "timestamp", "timestamptz"})  # in Arrow as in SQL
_NUMBERS = frozenset({"row_number", "rank"})


@dataclass(frozen=True)
class First:
    """The rows that have the `count` best values of a column, with as many more as are touched; where `counted` is
    given and not above 0, a row has no value."""

    count: int
    column: str
    descending: bool
    counted: str | None = None


@dataclass(frozen=True)
class Top:
    """What a limited window reads: a state, of which the `first` rows do, and perhaps its change."""

    state: Leaf
    first: First
    change: Node | None


def limits(predicates: Sequence[Expr]) -> dict[str, int]:
    """Columns that a filter limits from above, by the number."""
    found: dict[str, int] = {}
    for one in predicates:
        if isinstance(one, Call) and one.op == "compare" and one.detail in ("<=", "=", "<"):
            left, right = one.args
            if isinstance(left, Col) and isinstance(right, Lit) and kind(right.pg) == "int" and right.value is not None:
                found[left.name] = int(right.value)
    return found


def top(window: Window, limited: Mapping[str, int]) -> Top | None:
    """Where only the first rows of a state, and its change, are numbered: which."""
    wanted = [limited[one.name] for one in window.functions if one.name in limited and one.op in _NUMBERS]
    orders = {one.order for one in window.functions}
    if window.partition or not wanted or len(orders) > 1 or any(one.op not in _NUMBERS for one in window.functions):
        return None
    order = next(iter(orders))
    if not order:
        return None
    rows, by = window.input, order[0].expr
    while isinstance(rows, (Net, Repeat, Project)):
        if isinstance(rows, Project):
            by = substitute(by, dict(rows.items))
        rows = rows.input
    state, change = rows.inputs if isinstance(rows, UnionAll) and len(rows.inputs) == 2 else (rows, None)
    if not isinstance(state, Leaf) or state.read.kind != "state":
        return None
    found = _value(by, state)
    return found and Top(state, First(max(0, min(wanted)), found[0], order[0].descending, found[1]), change)


def _value(by: Expr, state: Leaf) -> tuple[str, str | None] | None:
    """The column of the state that is ordered by; with the one that counts its values, where a sum of none is NULL."""
    held = dict(state.columns)
    if isinstance(by, Col):
        column = held.get(by.name)
        return (column.name, None) if column is not None and kind(column.computed) in _ORDERED else None
    if isinstance(by, Call) and by.op == "case" and len(by.args) == 2:
        some, value = by.args
        found = _value(value, state) if isinstance(value, Col) else None
        if found and isinstance(some, Call) and (some.op, some.detail) == ("compare", ">"):
            counted, zero = some.args
            if isinstance(counted, Col) and counted.name in held and isinstance(zero, Lit) and zero.value == "0":
                return found[0], held[counted.name].name
    return None
