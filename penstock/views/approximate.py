"""Which columns of a view no other engine reproduces to the last digit, and how much room each needs: quotients of
numerics and computed floats, and roots, of which PostgreSQL keeps fewer digits.

Everything else is exact: what is only read, chosen, counted, added up as numeric, or rounded to another type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from penstock.views.algebra import Aggregate, Measure, Node, Project, Scan, Window, inputs
from penstock.views.expr import Call, Col, Expr, kind
from penstock.views.view import View

Room = Literal["quotient", "root"]
Rooms = Mapping[str, Room]
EXACT: Rooms = {}
_ROUNDED = ("float", "numeric")
_ARITHMETIC = (
    "add", "sub", "mul", "div", "mod", "sqrt", "cbrt", "exp", "ln", "log10", "power", "sin", "cos", "tan", "asin",
    "acos", "atan", "atan2", "degrees", "radians",
)  # fmt: skip


def approximate(view: View, upstream: Mapping[str, Rooms] | None = None) -> Rooms:
    """The view's approximate columns; `upstream` has those of the views among its inputs, by name."""
    return _columns(view.plan, upstream or {})


def _columns(node: Node, upstream: Mapping[str, Rooms]) -> Rooms:
    if isinstance(node, Scan):
        given = upstream.get(node.relation.name, EXACT)
        return {name: given[column.name] for name, column in node.columns if column.name in given}
    below: dict[str, Room] = {}
    for child in inputs(node):
        for name, room in _columns(child, upstream).items():
            below[name] = _more([room, below.get(name)]) or room
    match node:
        case Project():
            return _needed((name, _room(expr, below)) for name, expr in node.items)
        case Aggregate():
            keys = _needed((name, _room(expr, below)) for name, expr in node.keys)
            return {**keys, **_needed((m.name, _measured(m, below)) for m in node.measures)}
        case Window():
            made = ((f.name, _more(_room(arg, below) for arg in f.args)) for f in node.functions)
            return {**below, **_needed(made)}
        case _:
            return below


def _needed(rooms: Iterable[tuple[str, Room | None]]) -> dict[str, Room]:
    return {name: room for name, room in rooms if room is not None}


def _more(rooms: Iterable[Room | None]) -> Room | None:
    """What is made of several values needs the most that one of them does."""
    found = set(rooms)
    return "root" if "root" in found else "quotient" if "quotient" in found else None


def _measured(measure: Measure, below: Rooms) -> Room | None:
    if measure.how in ("rows", "nonnull") or measure.arg is None:
        return None
    own: Room | None = "quotient" if kind(measure.column.pg) == "float" and measure.how not in ("min", "max") else None
    return _more([own, *(_room(expr, below) for expr in measure.exprs)])


def _room(expr: Expr, below: Rooms) -> Room | None:
    """A condition or an integer made of a quotient is right or wrong, never nearly right."""
    if kind(expr.pg) not in _ROUNDED:
        return None
    if isinstance(expr, Col):
        return below.get(expr.name)
    return _more([_own(expr), *(_room(arg, below) for arg in expr.args)]) if isinstance(expr, Call) else None


def _own(expr: Call) -> Room | None:
    """What the operation itself rounds."""
    if kind(expr.pg) == "numeric":
        return "root" if expr.op == "root" else "quotient" if expr.op == "div" else None
    inexact = expr.op in _ARITHMETIC or (expr.op == "convert" and kind(expr.args[0].pg) == "numeric")
    return "quotient" if inexact else None
