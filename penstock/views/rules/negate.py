"""Δ (−R) = −ΔR."""

from __future__ import annotations

from penstock.views.algebra import Negate, Node
from penstock.views.rules.differentiator import Differentiator, Rule


def delta(node: Negate, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    return change and Negate(change)


RULE = Rule("Δ (−R) = −ΔR", delta)
