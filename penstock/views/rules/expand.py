"""Δ ε(R) = ε(ΔR): what a function in FROM gives for a row depends on that row alone."""

from __future__ import annotations

from penstock.views.algebra import Expand, Node
from penstock.views.rewrites.tree import over
from penstock.views.rules.differentiator import Differentiator, Rule


def delta(node: Expand, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    return change and over(node, (change,))


RULE = Rule("Δ ε(R) = ε(ΔR)", delta)
