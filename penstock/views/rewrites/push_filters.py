"""σ moves down: to the input that has its columns, into every branch of a union, below γ where it reads only keys.

A condition over several inputs of a join becomes part of the join.
"""

from __future__ import annotations

from penstock.views.algebra import (
    Aggregate,
    Exists,
    Expand,
    Filter,
    Join,
    Node,
    OuterJoin,
    UnionAll,
    Weigh,
    Window,
    outputs,
)
from penstock.views.expr import Col, Expr, names, substitute
from penstock.views.rewrites.tree import bottom_up, over


def push_filters(node: Node) -> Node:
    return bottom_up(node, _push)


def _push(node: Node) -> Node:
    match node:
        case Filter(input=Filter() as below):
            return Filter(below.input, below.predicates + node.predicates)
        case Filter(input=Join() as join):
            return Join(join.inputs, join.on + node.predicates, join.small)
        case Join():
            return _into_inputs(node)
        case Filter(input=Weigh() as below):
            return over(below, (Filter(below.input, node.predicates),))
        case Filter(input=Exists() as below):
            return over(below, (Filter(below.input, node.predicates), below.by))
        case Filter(input=OuterJoin(full=False) as below):
            return _into_left(node, below)
        case Filter(input=Window() as below):
            return _into_partitions(node, below)
        case Filter(input=Expand() as below):
            return _into_expanded(node, below)
        case Filter(input=UnionAll() as union):
            return _into_branches(node, union)
        case Filter(input=Aggregate() as grouped) if grouped.keys:
            return _below_groups(node, grouped)
        case _:
            return node


def _into_inputs(join: Join) -> Node:
    """Each condition that one input alone can answer goes there."""
    inputs, rest = list(join.inputs), list[Expr]()
    have = [{col.name for col in outputs(child)} for child in inputs]
    for condition in join.on:
        wanted = names(condition)
        place = next((i for i, columns in enumerate(have) if wanted and wanted <= columns), None)
        if place is None:
            rest.append(condition)
        else:
            inputs[place] = _filtered(inputs[place], (condition,))
    return Join(tuple(inputs), tuple(rest), join.small)


def _into_left(node: Filter, join: OuterJoin) -> Node:
    """What reads only the side that is kept whole may as well be asked before."""
    left = {col.name for col in outputs(join.left)}
    down = tuple(p for p in node.predicates if names(p) and names(p) <= left)
    stay = tuple(p for p in node.predicates if p not in down)
    return _filtered(over(join, (_filtered(join.left, down), join.right)), stay)


def _into_partitions(node: Filter, window: Window) -> Node:
    """Whole partitions may be left out before."""
    plain = {e.name for e in window.partition if isinstance(e, Col)}
    down = tuple(p for p in node.predicates if names(p) and names(p) <= plain)
    stay = tuple(p for p in node.predicates if p not in down)
    return _filtered(over(window, (_filtered(window.input, down),)), stay)


def _into_expanded(node: Filter, below: Expand) -> Node:
    """What reads nothing that the function gives is asked before it is called."""
    own = {col.name for col in outputs(below.input)}
    down = tuple(p for p in node.predicates if names(p) and names(p) <= own)
    stay = tuple(p for p in node.predicates if p not in down)
    return _filtered(over(below, (_filtered(below.input, down),)), stay)


def _into_branches(node: Filter, union: UnionAll) -> Node:
    return over(union, tuple(_filtered(branch, node.predicates) for branch in union.inputs))


def _below_groups(node: Filter, grouped: Aggregate) -> Node:
    keys = dict(grouped.keys)
    down = tuple(p for p in node.predicates if names(p) and names(p) <= set(keys))
    if not down:
        return node
    stay = tuple(p for p in node.predicates if p not in down)
    below = _filtered(grouped.input, tuple(substitute(p, keys) for p in down))
    return _filtered(over(grouped, (below,)), stay)


def _filtered(node: Node, predicates: tuple[Expr, ...]) -> Node:
    return Filter(node, predicates) if predicates else node
