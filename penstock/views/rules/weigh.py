"""Δ (n · R) = n · ΔR: a row that is there several times changes as often."""

from __future__ import annotations

from penstock.views.algebra import Node, Weigh
from penstock.views.rules.differentiator import Differentiator, Rule


def delta(node: Weigh, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    return change and Weigh(change, node.times)


RULE = Rule("Δ (n · R) = n · ΔR", delta)
