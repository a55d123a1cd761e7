"""Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR: γ₀ is what is remembered; γ₁ is γ₀ + γ(ΔR), or γ(R₁) where adding does not do.

Counts and exact sums are linear: the new value is the old one plus that of the change. Extremes are combined where no
row left. Float sums drift and the other functions are not linear: those groups are computed again from R₁, as are
extremes where rows left. γ₀ comes from the operator's state either way, so what is retracted is what was given. Keys
match null-safely. Without keys there is one row, always.
"""

from __future__ import annotations

from penstock.views.algebra import (
    Aggregate,
    Expand,
    Filter,
    Group,
    Join,
    Leaf,
    Measure,
    Negate,
    Net,
    Node,
    Project,
    Repeat,
    Scan,
    SemiJoin,
    Shift,
    UnionAll,
    walk,
)  # fmt: skip
from penstock.views.expr import Col, Expr
from penstock.views.rules.differentiator import Differentiator, Rule, When

MANY_GROUPS = 20_000
Keys = tuple[tuple[str, Expr], ...]


def delta(node: Aggregate, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    if change is None:
        return None
    state = diff.states[node]
    if is_linear(node):
        return _linear(node, change, state, diff)
    if all(measure.linear or measure.is_extreme for measure in node.measures) and _only_grows(node.input, diff):
        return _extended(node, change, state, diff)
    return _recomputed(node, change, state, diff)


def is_linear(node: Aggregate) -> bool:
    return all(measure.linear for measure in node.measures)


def _linear(node: Aggregate, change: Node, state: Leaf, diff: Differentiator) -> Node:
    moved = Group(change, node.keys, node.measures, keep="changed")
    # Few groups are added up whole; out of many, those of the change are picked first.
    few = diff.sizes.get(state.read.relation, MANY_GROUPS) < MANY_GROUPS
    return Shift(state if few else _of_groups(node, state, moved, diff), moved, _keys(node), node.measures)


def _only_grows(node: Node, diff: Differentiator) -> bool:
    """Whether the change of a node takes no row away: more rows below never mean fewer above."""
    parts = list(walk(node))
    changed = {part.relation.name for part in parts if isinstance(part, Scan)} & diff.changed
    return changed <= diff.growing and all(isinstance(part, _MONOTONE) for part in parts)


_MONOTONE = (Scan, Filter, Project, Join, UnionAll, Expand)


def _extended(node: Aggregate, change: Node, state: Leaf, diff: Differentiator) -> Node:
    """Nothing left, so an extreme is the old one or that of the change. States that a join reads are not netted, so a
    row of the change may stand there as +1, −1, +1; the same goes for what is remembered."""
    keys, rows, measures = _apart(node, change)
    moved = Group(Net(rows), keys, measures)
    return Shift(Net(_of_groups(node, state, moved, diff)), moved, _keys(node), node.measures)


def _recomputed(node: Aggregate, change: Node, state: Leaf, diff: Differentiator) -> Node:
    touched = Group(change, node.keys, ())
    keys, rows, measures = _apart(node, diff.after(node.input))
    there: Node = Net(_of_groups(node, rows, touched, diff))
    if any(measure.by_row for measure in measures):
        there = Repeat(there)
    fresh = Group(there, keys, measures, keep="present")
    return UnionAll((Negate(_of_groups(node, state, touched, diff)), fresh))


def _apart(node: Aggregate, rows: Node) -> tuple[Keys, Node, tuple[Measure, ...]]:
    """The rows with what the aggregate reads as columns of their own, and the aggregate over those."""
    args: dict[Expr, str] = {}
    for measure in reversed(node.measures):
        args |= {expr: f"{measure.name}__arg{place or ''}" for place, expr in enumerate(measure.exprs)}
    given = Project(rows, (*node.keys, *((name, arg) for arg, name in args.items())))
    measures = tuple(m.over(lambda e: Col(args[e], e.pg, e.spark)) for m in node.measures)
    return tuple((key.name, key) for key in _keys(node)), given, measures


def _of_groups(node: Aggregate, rows: Node, groups: Node, diff: Differentiator) -> Node:
    keys = _keys(node)
    return SemiJoin(rows, keys, groups, keys, diff.is_small(node.input)) if keys else rows


def _keys(node: Aggregate) -> tuple[Col, ...]:
    return tuple(Col(name, expr.pg, expr.spark) for name, expr in node.keys)


def at(node: Aggregate, diff: Differentiator, when: When) -> Node:
    change = diff.delta(node) if when == "after" else None
    return diff.states[node] if change is None else UnionAll((diff.states[node], change))


RULE = Rule("Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR", delta, at)
