"""Δ VALUES = 0: what is written in the query never changes, and is the same before and after."""

from __future__ import annotations

from penstock.views.algebra import Constants, Node
from penstock.views.rules.differentiator import Differentiator, Rule, When


def delta(node: Constants, diff: Differentiator) -> Node | None:
    return None


def at(node: Constants, diff: Differentiator, when: When) -> Node:
    return node


RULE = Rule("Δ VALUES = 0", delta, at)
