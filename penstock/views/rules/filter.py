"""Δ σ(R) = σ(ΔR)."""

from __future__ import annotations

from penstock.views.algebra import Filter, Node
from penstock.views.rules.differentiator import Differentiator, Rule


def delta(node: Filter, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    return change and Filter(change, node.predicates)


RULE = Rule("Δ σ(R) = σ(ΔR)", delta)
