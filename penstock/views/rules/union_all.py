"""Δ (L ∪ R) = ΔL + ΔR."""

from __future__ import annotations

from penstock.views.algebra import Node, UnionAll
from penstock.views.rules.differentiator import Differentiator, Rule


def delta(node: UnionAll, diff: Differentiator) -> Node | None:
    changes = tuple(change for child in node.inputs if (change := diff.delta(child)) is not None)
    return changes[0] if len(changes) == 1 else UnionAll(changes)


RULE = Rule("Δ (L ∪ R) = ΔL + ΔR", delta)
