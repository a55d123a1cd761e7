"""Δ(L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR.

L₁ is L after the change and R₀ is R before it, so ΔL ⋈ ΔR is counted once. Of n inputs in any order, term i has those
earlier in the order after the change and those later before it; the mirrored law is the reversed order. A term of an
input that did not change is not there. Each term starts from its Δ and takes next what is joined to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.views.algebra import Join, Node, Project, UnionAll, outputs
from penstock.views.expr import Expr, names
from penstock.views.keys import Key, keys_of, probed
from penstock.views.rules.differentiator import Differentiator, Rule

Keyed = tuple[Node, tuple[Key, ...]]  # an input's state, and the keys of its rows


def delta(node: Join, diff: Differentiator) -> Node | None:
    order = choose([diff.size(child) for child in node.inputs])
    terms = []
    for place, which in enumerate(order):
        change = diff.delta(node.inputs[which])
        if change is None:
            continue
        states = {other: diff.after(node.inputs[other]) for other in order[:place]}
        states |= {other: diff.before(node.inputs[other]) for other in order[place + 1 :]}
        others = [(states[other], keys_of(node.inputs[other])) for other in sorted(states)]
        small = diff.is_small(node.inputs[which])
        terms.append(_from_change(change, connected(change, others, node.on), node.on, small=small))
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


def connected(start: Node, others: Sequence[Keyed], on: Sequence[Expr]) -> list[Keyed]:
    """The other inputs, each as soon as a condition ties it to those before it; unrelated ones last."""
    left, known, order = list(others), _names(start), list[Keyed]()
    while left:
        tied = [found for found in left if any(_ties(condition, found[0], known) for condition in on)]
        following = tied[0] if tied else left[0]
        left.remove(following)
        order.append(following)
        known |= _names(following[0])
    return order


def _from_change(change: Node, others: Sequence[Keyed], on: Sequence[Expr], *, small: bool) -> Join:
    """Δ with the others. While a whole key is probed, each row of Δ meets at most one: what comes out is as small as Δ
    and is joined on its own, so that it too can be broadcast."""
    start, conditions, rest = change, list(on), list(others)
    while small and len(rest) > 1 and any(probed(conditions, key, _names(start)) for key in rest[0][1]):
        known = _names(start) | _names(rest[0][0])
        here = tuple(condition for condition in conditions if names(condition) <= known)
        start = Join((start, rest.pop(0)[0]), here, small=True)
        conditions = [condition for condition in conditions if condition not in here]
    return Join((start, *(state for state, _ in rest)), tuple(conditions), small)


def _names(node: Node) -> set[str]:
    return {col.name for col in outputs(node)}


def _ties(condition: Expr, node: Node, known: set[str]) -> bool:
    wanted, own = names(condition), _names(node)
    return bool(wanted & own) and bool(wanted & known) and wanted <= own | known


def _same_columns(term: Join, node: Join) -> Node:
    return Project(term, tuple((col.name, col) for col in outputs(node)))


RULE = Rule("Δ (L ⋈ R) = ΔL ⋈ R₀ + L₁ ⋈ ΔR", delta)
