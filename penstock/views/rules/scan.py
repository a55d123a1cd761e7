"""Δ scan(R) = the changes of R."""

from __future__ import annotations

from penstock.views.algebra import Node, Scan
from penstock.views.rules.differentiator import Differentiator, Rule, When, leaf


def delta(node: Scan, diff: Differentiator) -> Node | None:
    return leaf(node, "delta")


def at(node: Scan, diff: Differentiator, when: When) -> Node:
    return leaf(node, when)


RULE = Rule("Δ scan(R) = changes of R", delta, at)
