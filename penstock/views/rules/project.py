"""Δ π(R) = π(ΔR)."""

from __future__ import annotations

from penstock.views.algebra import Node, Project
from penstock.views.rules.differentiator import Differentiator, Rule


def delta(node: Project, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    return change and Project(change, node.items)


RULE = Rule("Δ π(R) = π(ΔR)", delta)
