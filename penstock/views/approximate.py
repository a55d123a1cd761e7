"""Which columns of a view no other engine reproduces to the last digit: quotients of numerics, and computed floats.

Everything else is exact: what is only read, chosen, counted, added up as numeric, or rounded to another type.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.views.algebra import Aggregate, Measure, Node, Project, Scan, Window, inputs
from penstock.views.expr import Call, Col, Expr, kind
from penstock.views.view import View

Names = frozenset[str]
_ROUNDED = ("float", "numeric")
_ARITHMETIC = ("add", "sub", "mul", "div", "mod", "sqrt", "cbrt", "exp", "ln", "log10", "power")


def approximate(view: View, upstream: Mapping[str, Names] | None = None) -> Names:
    """The view's approximate columns; `upstream` has those of the views among its inputs, by name."""
    return _columns(view.plan, upstream or {})


def _columns(node: Node, upstream: Mapping[str, Names]) -> Names:
    if isinstance(node, Scan):
        given = upstream.get(node.relation.name, frozenset())
        return frozenset(name for name, column in node.columns if column.name in given)
    below = Names().union(*(_columns(child, upstream) for child in inputs(node)))
    match node:
        case Project():
            return frozenset(name for name, expr in node.items if _inexact(expr, below))
        case Aggregate():
            keys = [name for name, expr in node.keys if _inexact(expr, below)]
            return frozenset([*keys, *(m.name for m in node.measures if _inexact_measure(m, below))])
        case Window():
            return below | {f.name for f in node.functions if any(_inexact(arg, below) for arg in f.args)}
        case _:
            return below


def _inexact_measure(measure: Measure, below: Names) -> bool:
    if measure.how in ("rows", "nonnull") or measure.arg is None:
        return False
    if kind(measure.column.pg) == "float" and measure.how not in ("min", "max"):
        return True
    return any(_inexact(expr, below) for expr in measure.exprs)


def _inexact(expr: Expr, below: Names) -> bool:
    """A condition or an integer made of a quotient is right or wrong, never nearly right."""
    if kind(expr.pg) not in _ROUNDED:
        return False
    if isinstance(expr, Col):
        return expr.name in below
    return isinstance(expr, Call) and (_rounds(expr) or any(_inexact(arg, below) for arg in expr.args))


def _rounds(expr: Call) -> bool:
    if kind(expr.pg) == "numeric":
        return expr.op == "div"
    return expr.op in _ARITHMETIC or (expr.op == "convert" and kind(expr.args[0].pg) == "numeric")
