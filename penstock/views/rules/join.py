"""Δ(L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR.

L₁ is L after the change and R₀ is R before it, so ΔL ⋈ ΔR is counted once. Of n inputs in any order, term i has those
earlier in the order after the change and those later before it; the mirrored law is the reversed order. A term of an
input that did not change is not there. Each term starts from its Δ and takes next what is joined to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.views.algebra import Join, Node, Project, UnionAll, outputs
from penstock.views.expr import Expr, names
from penstock.views.rules.differentiator import Differentiator, Rule


def delta(node: Join, diff: Differentiator) -> Node | None:
    order = choose([diff.size(child) for child in node.inputs])
    terms = []
    for place, which in enumerate(order):
        change = diff.delta(node.inputs[which])
        if change is None:
            continue
        others = {other: diff.after(node.inputs[other]) for other in order[:place]}
        others |= {other: diff.before(node.inputs[other]) for other in order[place + 1 :]}
        rest = connected(change, [others[other] for other in sorted(others)], node.on)
        terms.append(Join((change, *rest), node.on, small=True))
    return terms[0] if len(terms) == 1 else UnionAll(tuple(_same_columns(term, node) for term in terms))


def choose(sizes: Sequence[int]) -> tuple[int, ...]:
    """The order of the law: the first input is read only after the change and the last only before it; those between
    are read as both, so the largest two stand at the ends.

    >>> choose([10, 500, 20, 900])
    (3, 0, 2, 1)
    >>> choose([0, 0])
    (0, 1)
    """
    ranked = sorted(range(len(sizes)), key=lambda place: -sizes[place])
    if len(ranked) < 3:
        return tuple(ranked)
    return (ranked[0], *sorted(ranked[2:]), ranked[1])


def connected(start: Node, others: Sequence[Node], on: Sequence[Expr]) -> tuple[Node, ...]:
    """The other inputs, each as soon as a condition ties it to those before it; unrelated ones last."""
    left, known, order = list(others), {col.name for col in outputs(start)}, list[Node]()
    while left:
        tied = [node for node in left if any(_ties(condition, node, known) for condition in on)]
        following = tied[0] if tied else left[0]
        left.remove(following)
        order.append(following)
        known |= {col.name for col in outputs(following)}
    return tuple(order)


def _ties(condition: Expr, node: Node, known: set[str]) -> bool:
    wanted, own = names(condition), {col.name for col in outputs(node)}
    return bool(wanted & own) and bool(wanted & known) and wanted <= own | known


def _same_columns(term: Join, node: Join) -> Node:
    return Project(term, tuple((col.name, col) for col in outputs(node)))


RULE = Rule("Δ (L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR", delta)
