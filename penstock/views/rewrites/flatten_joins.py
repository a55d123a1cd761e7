"""(A ⋈ B) ⋈ C = ⋈(A, B, C): one node for all inputs, so that each term of its change can start from what changed."""

from __future__ import annotations

from penstock.views.algebra import Filter, Join, Node
from penstock.views.expr import Expr
from penstock.views.rewrites.tree import bottom_up


def flatten_joins(node: Node) -> Node:
    return bottom_up(node, _flatten)


def _flatten(node: Node) -> Node:
    if not isinstance(node, Join) or not any(_is_join(child) for child in node.inputs):
        return node
    inputs: list[Node] = []
    on: list[Expr] = []
    for child in node.inputs:
        more: tuple[Expr, ...] = ()
        if isinstance(child, Filter) and isinstance(child.input, Join):
            more, child = child.predicates, child.input
        if isinstance(child, Join):
            inputs.extend(child.inputs)
            on += [*child.on, *more]
        else:
            inputs.append(child)
    return Join(tuple(inputs), (*on, *node.on))


def _is_join(node: Node) -> bool:
    return isinstance(node, Join) or (isinstance(node, Filter) and isinstance(node.input, Join))
