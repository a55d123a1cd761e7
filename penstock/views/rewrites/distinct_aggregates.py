"""γ[k; f(DISTINCT x), g(y)] = γ[k; f(x), Σg](γ[k, x; g(y)]) where f and g are linear: each value of x is then one row.

What the inner one remembers says how often a value is there, so a value that came or left is known without a rescan.
Where there are several DISTINCT arguments, or measures that are not linear, the groups are computed again.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import UnsupportedQuery
from penstock.views.algebra import Aggregate, Measure, Node, measured
from penstock.views.expr import Call, Col, Expr
from penstock.views.rewrites.tree import bottom_up


def distinct_aggregates(node: Node) -> Node:
    return bottom_up(node, _split)


def _split(node: Node) -> Node:
    if not isinstance(node, Aggregate) or (value := _only_value(node)) is None:
        return node
    keys = tuple((_each(name), expr) for name, expr in node.keys)
    plain = tuple(replace(m, name=_each(m.name)) for m in node.measures if not m.distinct)
    inner = Aggregate(node.input, (*keys, (f"{plain[0].name}_value", value)), plain)
    stand = Col(inner.keys[-1][0], value.pg, value.spark)
    below = {m.name: measured(m) for m in plain}
    return Aggregate(
        inner,
        tuple((name, Col(_each(name), expr.pg, expr.spark)) for name, expr in node.keys),
        tuple(_outer(m, stand, below) for m in node.measures),
    )


def _each(name: str) -> str:
    return f"{name}__each"


def _only_value(node: Aggregate) -> Expr | None:
    """The one DISTINCT argument, if all else is linear."""
    values = {_value(m) for m in node.measures if m.distinct}
    linear = all(m.linear or (m.distinct and m.how in ("nonnull", "sum")) for m in node.measures)
    if len(values) == 1 and linear:
        return values.pop()
    if any(m.distinct and m.how == "sum" and m.more for m in node.measures):
        raise UnsupportedQuery(
            "variance or stddev of DISTINCT exact numbers beside other DISTINCT arguments, extremes or ordered "
            "aggregates is not supported in a view",
            hint="Put it into a SELECT of its own, or cast its argument to double precision.",
        )
    return None


def _value(measure: Measure) -> Expr | None:
    """What is DISTINCT: the argument, or what it is computed of."""
    return measure.more[0] if measure.how == "sum" and measure.more else measure.arg


def _outer(measure: Measure, value: Col, below: dict[str, Col]) -> Measure:
    if measure.distinct:
        known = _value(measure)
        arg = measure.arg and _replaced(measure.arg, known, value)
        return replace(measure, arg=arg, distinct=False, more=())
    return replace(measure, how="sum", arg=below[_each(measure.name)])


def _replaced(expr: Expr, old: Expr | None, new: Expr) -> Expr:
    if expr == old:
        return new
    return replace(expr, args=tuple(_replaced(arg, old, new) for arg in expr.args)) if isinstance(expr, Call) else expr
