"""With a = b in the join, COALESCE(a, b) is a: what JOIN … USING (k) makes of k is a plain column again."""

from __future__ import annotations

from dataclasses import replace

from penstock.views.algebra import Filter, Join, Node, Project
from penstock.views.expr import Call, Col, Expr
from penstock.views.rewrites.tree import bottom_up


def merged_columns(node: Node) -> Node:
    return bottom_up(node, _merge)


def _merge(node: Node) -> Node:
    if not isinstance(node, Project):
        return node
    below = node.input.input if isinstance(node.input, Filter) else node.input
    conditions = (*(node.input.predicates if isinstance(node.input, Filter) else ()),
                  *(below.on if isinstance(below, Join) else ()))  # fmt: skip
    equal = {frozenset(c.args) for c in conditions if isinstance(c, Call) and c.op == "compare" and c.detail == "="}
    return replace(node, items=tuple((name, _simpler(e, equal)) for name, e in node.items))


def _simpler(expr: Expr, equal: set[frozenset[Expr]]) -> Expr:
    if not isinstance(expr, Call):
        return expr
    if expr.op == "coalesce" and len(expr.args) == 2 and frozenset(expr.args) in equal:
        first = expr.args[0]
        return replace(first, nullable=False) if isinstance(first, Col) else first
    return replace(expr, args=tuple(_simpler(arg, equal) for arg in expr.args))
