"""L ⋉ R = L ⋈ δ(keys of R); L ▷ R = L − L ⋉ R.

R is asked only whether there is a match: its keys are remembered with the number of rows that have them, and a key that
comes or goes is what changes. Where a condition is more than equality, what is remembered are the values of L that have
a match, with how many. NULL meets nothing, unless the condition says so. NOT IN is made of these: see `subqueries.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.views.algebra import Aggregate, Exists, Filter, Negate, Node, Project, UnionAll, measured, outputs
from penstock.views.distinct import counted, rows_of
from penstock.views.expr import BOOL, INT8, Col, Expr, call, columns, lit, names
from penstock.views.rules.differentiator import defined
from penstock.views.ties import Ties, at_most_one, filtered, joined, ties


@dataclass(frozen=True)
class Witnesses:
    """What tells whether a row of the left has a match: `known`, of which `on` finds at most one row; and what is asked
    of the left alone."""

    left: tuple[Expr, ...]
    known: Node
    on: tuple[Expr, ...]


def definition(node: Exists) -> Node:
    own = tuple((col.name, col) for col in outputs(node.input))
    kept = Project(matched(node.input, node.by, node.on), own)
    return UnionAll((node.input, Negate(kept))) if node.negated else kept


def matched(left: Node, right: Node, on: tuple[Expr, ...]) -> Node:
    """The rows of `left` that have a match, each as often as it is there; among other columns."""
    found = witnesses(left, right, on)
    return joined(filtered(left, found.left), found.known, found.on)


def witnesses(left: Node, right: Node, on: tuple[Expr, ...]) -> Witnesses:
    found = ties(on, left, right)
    right = filtered(right, found.right)
    if found.more:
        return _values_with_a_match(filtered(left, found.left), right, found)
    if not found.equal:
        return Witnesses(found.left, _some(right), ())
    names_of_keys = [f"{min(names(pair.right))}__k{place}" for place, pair in enumerate(found.equal)]
    keys = [(name, pair.right) for name, pair in zip(names_of_keys, found.equal, strict=True)]
    known = Project(right, tuple(keys)) if at_most_one(right, found.equal) else counted(right, keys)
    same = tuple(pair.condition(col) for pair, col in zip(found.equal, outputs(known), strict=False))
    return Witnesses(found.left, known, same)


def _some(right: Node) -> Node:
    """A row if there is any."""
    rows = rows_of(outputs(right)[0].name if outputs(right) else "any")
    return Filter(Aggregate(right, (), (rows,)), (_above_0(measured(rows)),))


def _values_with_a_match(left: Node, right: Node, found: Ties) -> Witnesses:
    """The values of `left` that the conditions read, those for which there is a match."""
    on = (*(pair.condition(pair.right) for pair in found.equal), *found.more)
    own = {col.name for col in outputs(left)}
    values = {col.name: col for condition in on for col in columns(condition) if col.name in own}
    known = counted(joined(left, right, on), [(f"{name}__m", col) for name, col in values.items()])
    same = tuple(
        call("compare", col, Col(f"{name}__m", col.pg, col.spark), pg=BOOL, detail="<=>")
        for name, col in values.items()
    )
    return Witnesses(found.left, known, same)


def _above_0(number: Expr) -> Expr:
    return call("compare", number, lit(0, INT8), pg=BOOL, detail=">")


RULE = defined("L ⋉ R = L ⋈ δ(R), L ▷ R = L − L ⋉ R", definition)
