"""(a ∧ b) ∨ (a ∧ c) = a ∧ (b ∨ c): what every branch of an OR asks becomes a condition of its own.

An equality that ties two tables is often written into each branch; out of the OR it makes an equi-join. The law holds
in the logic with NULL too.
"""

from __future__ import annotations

from functools import reduce

from penstock.views.algebra import Filter, Join, Node
from penstock.views.expr import BOOL, Expr, call, conjuncts, disjuncts
from penstock.views.rewrites.tree import bottom_up


def common_conditions(node: Node) -> Node:
    return bottom_up(node, _apart)


def _apart(node: Node) -> Node:
    match node:
        case Filter():
            return Filter(node.input, _factored(node.predicates))
        case Join():
            return Join(node.inputs, _factored(node.on), node.small)
        case _:
            return node


def _factored(conditions: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(part for condition in conditions for part in _parts(condition))


def _parts(condition: Expr) -> tuple[Expr, ...]:
    branches = [conjuncts(branch) for branch in disjuncts(condition)]
    common = tuple(part for part in dict.fromkeys(branches[0]) if all(part in branch for branch in branches[1:]))
    if len(branches) == 1 or not common:
        return (condition,)
    rest = [tuple(part for part in branch if part not in common) for branch in branches]
    if not all(rest):  # a ∨ (a ∧ b) = a
        return common
    return (*common, _joined("or", [_joined("and", branch) for branch in rest]))


def _joined(op: str, parts: list[Expr] | tuple[Expr, ...]) -> Expr:
    return reduce(lambda left, right: call(op, left, right, pg=BOOL), parts)
