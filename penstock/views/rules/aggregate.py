"""Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR: γ₀ is what is remembered; γ₁ is γ₀ + γ(ΔR), or γ(R₁) where adding does not do.

Counts and exact sums are linear: the new value is the old one plus that of the change. Extremes, float sums and the
other functions are not (a maximum may be deleted, floats drift): those groups are computed again from R₁.
γ₀ comes from the operator's state either way, so what is retracted is what was given. Keys match null-safely. Without
keys there is one row, always.
"""

from __future__ import annotations

from penstock.views.algebra import Aggregate, Group, Leaf, Negate, Net, Node, Project, Repeat, SemiJoin, Shift, UnionAll
from penstock.views.expr import Col, Expr
from penstock.views.rules.differentiator import Differentiator, Rule, When

MANY_GROUPS = 20_000


def delta(node: Aggregate, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    if change is None:
        return None
    state = diff.states[node]
    if is_linear(node):
        return _linear(node, change, state, diff)
    return _recomputed(node, change, state, diff)


def is_linear(node: Aggregate) -> bool:
    return all(measure.linear for measure in node.measures)


def _linear(node: Aggregate, change: Node, state: Leaf, diff: Differentiator) -> Node:
    moved = Group(change, node.keys, node.measures, keep="changed")
    # Few groups are added up whole; out of many, those of the change are picked first.
    few = diff.sizes.get(state.read.relation, MANY_GROUPS) < MANY_GROUPS
    return Shift(state if few else _of_groups(node, state, moved, diff), moved, _keys(node), node.measures)


def _recomputed(node: Aggregate, change: Node, state: Leaf, diff: Differentiator) -> Node:
    touched = Group(change, node.keys, ())
    args: dict[Expr, str] = {}
    for measure in reversed(node.measures):
        args |= {expr: f"{measure.name}__arg{place or ''}" for place, expr in enumerate(measure.exprs)}
    rows = Project(diff.after(node.input), (*node.keys, *((name, arg) for arg, name in args.items())))
    measures = tuple(m.over(lambda e: Col(args[e], e.pg, e.spark)) for m in node.measures)
    kept = tuple((key.name, key) for key in _keys(node))
    there: Node = Net(_of_groups(node, rows, touched, diff))
    if any(measure.by_row for measure in measures):
        there = Repeat(there)
    fresh = Group(there, kept, measures, keep="present")
    return UnionAll((Negate(_of_groups(node, state, touched, diff)), fresh))


def _of_groups(node: Aggregate, rows: Node, groups: Node, diff: Differentiator) -> Node:
    keys = _keys(node)
    return SemiJoin(rows, keys, groups, keys, diff.is_small(node.input)) if keys else rows


def _keys(node: Aggregate) -> tuple[Col, ...]:
    return tuple(Col(name, expr.pg, expr.spark) for name, expr in node.keys)


def at(node: Aggregate, diff: Differentiator, when: When) -> Node:
    change = diff.delta(node) if when == "after" else None
    return diff.states[node] if change is None else UnionAll((diff.states[node], change))


RULE = Rule("Δ γ(R) = −γ₀ + γ₁ on the groups of ΔR", delta, at)
