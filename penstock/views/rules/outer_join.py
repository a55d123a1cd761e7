"""L ⟕ R = L ⋈ R + (L − L ⋉ R) × NULLs; a full join adds (R − R ⋉ L).

So an outer join changes as an inner join does, and by the rows of L whose first match came or whose last one went.
Where a row of L meets at most one of R, L ⋉ R is L ⋈ R itself and nothing is remembered.
"""

from __future__ import annotations

from penstock.views.algebra import Negate, Node, OuterJoin, Project, UnionAll, outputs
from penstock.views.expr import Col, Expr, Lit
from penstock.views.rules.differentiator import defined
from penstock.views.rules.exists import matched
from penstock.views.ties import at_most_one, filtered, joined, ties

Items = tuple[tuple[str, Expr], ...]


def definition(node: OuterJoin) -> Node:
    left, right = _items(outputs(node.left)), _items(outputs(node.right))
    met, having = _met(node.left, node.right, node.on)
    branches = [Project(met, left + right), *_alone(node.left, having, left + _nulls(right))]
    if node.full:
        branches += _alone(node.right, matched(node.right, node.left, node.on), _nulls(left) + right)
    return UnionAll(tuple(branches))


def _met(left: Node, right: Node, on: tuple[Expr, ...]) -> tuple[Node, Node]:
    """L ⋈ R, and the rows of L in it once each."""
    found = ties(on, left, right)
    if found.more or not at_most_one(right, found.equal):
        return joined(left, right, on), matched(left, right, on)
    equal = tuple(pair.condition(pair.right) for pair in found.equal)
    both = joined(filtered(left, found.left), filtered(right, found.right), equal)
    return both, both


def _alone(rows: Node, having: Node, items: Items) -> tuple[Node, Node]:
    """All rows, minus those that have a match."""
    return Project(rows, items), Negate(Project(having, items))


def _items(columns: tuple[Col, ...]) -> Items:
    return tuple((col.name, col) for col in columns)


def _nulls(items: Items) -> Items:
    return tuple((name, Lit(None, expr.pg, expr.spark)) for name, expr in items)


RULE = defined("L ⟕ R = L ⋈ R + (L − L ⋉ R) × NULLs", definition)
