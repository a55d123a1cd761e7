"""Which columns identify a row of a node's result: unknown, or a set of columns; the empty set is at most one row."""

from __future__ import annotations

from penstock.views.algebra import Aggregate, Filter, Join, Node, Project, Scan, outputs
from penstock.views.expr import Call, Col, names

Key = frozenset[str] | None


def key_of(node: Node) -> Key:
    match node:
        case Scan():
            named = {column.name: name for name, column in node.columns}
            key = node.relation.schema.key
            return frozenset(named[name] for name in key) if key and set(key) <= set(named) else None
        case Filter():
            return key_of(node.input)
        case Project():
            return _projected(node)
        case Join():
            return _joined(node)
        case Aggregate():
            return frozenset(name for name, _ in node.keys)
        case _:
            return None


def _projected(node: Project) -> Key:
    below = key_of(node.input)
    if below is None:
        return None
    kept = {expr.name: name for name, expr in reversed(node.items) if isinstance(expr, Col)}
    return frozenset(kept[name] for name in below) if below <= set(kept) else None


def _joined(node: Join) -> Key:
    """The keys of inputs from which the others follow: one whose whole key is equated to known columns adds no rows."""
    keys = [key_of(child) for child in node.inputs]
    roots = set(range(len(keys)))
    for place in range(len(keys)):
        if _closure(node, keys, roots - {place}) == set(range(len(keys))):
            roots.discard(place)
    if any(keys[place] is None for place in roots):
        return None
    return frozenset[str]().union(*(keys[place] or () for place in roots))


def _closure(node: Join, keys: list[Key], roots: set[int]) -> set[int]:
    found = set(roots)
    while True:
        known = {col.name for place in found for col in outputs(node.inputs[place])}
        more = {p for p, key in enumerate(keys) if p not in found and key is not None and probed(node, key, known)}
        if not more:
            return found
        found |= more


def probed(node: Join, key: frozenset[str], known: set[str]) -> bool:
    """True where the join equates every column of `key` with something over the `known` columns."""
    return all(any(_equates(condition, name, known) for condition in node.on) for name in key)


def _equates(condition: object, name: str, known: set[str]) -> bool:
    if not (isinstance(condition, Call) and condition.op == "compare" and condition.detail == "="):
        return False
    left, right = condition.args
    return any(
        isinstance(one, Col) and one.name == name and names(other) <= known
        for one, other in ((left, right), (right, left))
    )
