"""With a = b in the join, COALESCE(a, b) is a: what JOIN … USING (k) makes of k is a plain column again.

In an outer join it is the column of the side that is kept whole: the other equals it or is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.views.algebra import Filter, Join, Node, OuterJoin, Project, outputs
from penstock.views.expr import Call, Col, Expr, names
from penstock.views.rewrites.tree import bottom_up

Merged = Mapping[frozenset[Expr], Expr]


def merged_columns(node: Node) -> Node:
    return bottom_up(node, _merge)


def _merge(node: Node) -> Node:
    if not isinstance(node, Project):
        return node
    below = node.input.input if isinstance(node.input, Filter) else node.input
    merged: dict[frozenset[Expr], Expr] = {}
    if isinstance(below, OuterJoin) and not below.full:
        kept = {col.name for col in outputs(below.left)}
        for pair in map(_equated, below.on):
            merged |= {frozenset(pair): one for one in pair if names(one) and names(one) <= kept}
    conditions = [*(node.input.predicates if isinstance(node.input, Filter) else ()),
                  *(below.on if isinstance(below, Join) else ())]  # fmt: skip
    for pair in map(_equated, conditions):
        merged |= {frozenset(pair): _never_null(one) for one in pair[:1]}
    return replace(node, items=tuple((name, _simpler(e, merged)) for name, e in node.items))


def _equated(condition: Expr) -> tuple[Expr, ...]:
    equal = isinstance(condition, Call) and condition.op == "compare" and condition.detail == "="
    return condition.args if equal and isinstance(condition, Call) else ()


def _never_null(expr: Expr) -> Expr:
    return replace(expr, nullable=False) if isinstance(expr, Col) else expr


def _simpler(expr: Expr, merged: Merged) -> Expr:
    if not isinstance(expr, Call):
        return expr
    if expr.op == "coalesce" and len(expr.args) == 2 and frozenset(expr.args) in merged:
        return merged[frozenset(expr.args)]
    return replace(expr, args=tuple(_simpler(arg, merged) for arg in expr.args))
