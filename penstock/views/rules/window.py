"""Δ ω(R) = ω(R₁ ⋉ P) − ω(R₀ ⋉ P), P the partitions of ΔR.

A partition that did not change gives what it gave. The others are computed from the rows before and after; that gives
the old answer again exactly, because equal rows are put into one order (`windows.py`). Without PARTITION BY all rows
are one partition. An ORDER BY with LIMIT, and DISTINCT ON, are the first rows by number.
"""

from __future__ import annotations

from penstock.views.algebra import Group, Negate, Net, Node, Repeat, SemiJoin, UnionAll, Window
from penstock.views.expr import Col
from penstock.views.keys import keys_of
from penstock.views.rewrites.tree import over
from penstock.views.rules.differentiator import Differentiator, Rule, When


def delta(node: Window, diff: Differentiator) -> Node | None:
    change = diff.delta(node.input)
    if change is None:
        return None
    keys = tuple((f"{node.functions[0].name}__p{place}", expr) for place, expr in enumerate(node.partition))
    touched = Group(change, keys, ())

    def partitions(when: When) -> Node:
        rows = diff.at(node.input, when)
        if keys:
            own = tuple(Col(name, expr.pg, expr.spark) for name, expr in keys)
            rows = SemiJoin(rows, node.partition, touched, own, diff.is_small(node.input))
        return over(node, (_plain(node, rows),))

    return UnionAll((partitions("after"), Negate(partitions("before"))))


def at(node: Window, diff: Differentiator, when: When) -> Node:
    return over(node, (_plain(node, diff.at(node.input, when)),))


def _plain(node: Window, rows: Node) -> Node:
    """Netted, and a row that is there twice as two; with a key there is none."""
    netted = Net(rows)
    return netted if keys_of(node.input) else Repeat(netted)


RULE = Rule("Δ ω(R) = ω(R₁) − ω(R₀) on the partitions of ΔR", delta, at)
