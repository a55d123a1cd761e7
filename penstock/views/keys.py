"""Which columns identify a row of a node's result: candidates, none if unknown; an empty one means at most one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.views.algebra import (
    Aggregate,
    Constants,
    Exists,
    Expand,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    Window,
    outputs,
)
from penstock.views.expr import Call, Col, Expr, kind, names

Key = frozenset[str]


def keys_of(node: Node) -> tuple[Key, ...]:
    match node:
        case Scan():
            named = {column.name: name for name, column in node.columns}
            key = node.relation.schema.key
            return (frozenset(named[name] for name in key),) if key and set(key) <= set(named) else ()
        case Constants():
            return (frozenset(),) if len(node.rows) == 1 else ()
        case Exists():
            return keys_of(node.input)
        case Filter():
            return _filtered(node)
        case Window():
            return keys_of(node.input) + _numbered(node)
        case Expand():
            number = frozenset(name for name, _ in node.columns[-1:])
            return tuple(key | number for key in keys_of(node.input)) if node.numbered else ()
        case Project():
            kept = {expr.name: name for name, expr in reversed(node.items) if isinstance(expr, Col)}
            return tuple(frozenset(kept[n] for n in key) for key in keys_of(node.input) if key <= set(kept))
        case Join():
            return _joined(node)
        case OuterJoin():
            return _outer_joined(node)
        case Aggregate():
            return _grouped(node)
        case _:
            return ()


def _filtered(node: Filter) -> tuple[Key, ...]:
    """Also without the columns that are equal to a constant: of a key that is given as a whole there is one row. What
    is asked of a join's rows is as good as asked in its ON."""
    keys = keys_of(node.input)
    if isinstance(node.input, Join):
        keys = tuple(dict.fromkeys((*keys, *_joined(replace(node.input, on=(*node.input.on, *node.predicates))))))
    fewer = (frozenset(name for name in key if not probed(node.predicates, frozenset({name}), set())) for key in keys)
    return tuple(dict.fromkeys((*keys, *fewer)))


def _grouped(node: Aggregate) -> tuple[Key, ...]:
    """The group columns; a key of the input among them is one here too."""
    every = frozenset(name for name, _ in node.keys)
    kept = {expr.name: name for name, expr in node.keys if isinstance(expr, Col)}
    fewer = (frozenset(kept[n] for n in key) for key in keys_of(node.input) if key and key <= set(kept))
    return tuple(dict.fromkeys((*fewer, every)))


def _numbered(node: Window) -> tuple[Key, ...]:
    """The row number within a partition."""
    partition = [e.name for e in node.partition if isinstance(e, Col)]
    if len(partition) < len(node.partition):
        return ()
    return tuple(frozenset([*partition, f.name]) for f in node.functions if f.op == "row_number")


def _joined(node: Join) -> tuple[Key, ...]:
    """The keys of inputs from which the others follow: one whose whole key is equated to known columns adds no rows."""
    keys = [keys_of(child) for child in node.inputs]
    found = (_roots(node, keys, order) for order in (range(len(keys)), reversed(range(len(keys)))))
    return tuple(
        dict.fromkeys(
            frozenset[str]().union(*(keys[place][0] for place in roots))
            for roots in found
            if all(keys[place] for place in roots)
        )
    )


def _outer_joined(node: OuterJoin) -> tuple[Key, ...]:
    """Those of the left where the right adds no rows to it, else of both: a row met either something or nothing."""
    left, right = keys_of(node.left), keys_of(node.right)
    known = {col.name for col in outputs(node.left)}
    if not node.full and any(probed(node.on, key, known) for key in right):
        return left
    return tuple(dict.fromkeys(one | other for one in left for other in right))


def _roots(node: Join, keys: Sequence[tuple[Key, ...]], order: Iterable[int]) -> set[int]:
    every = set(range(len(keys)))
    roots = set(every)
    for place in order:
        if _closure(node, keys, roots - {place}) == every:
            roots.discard(place)
    return roots


def _closure(node: Join, keys: Sequence[tuple[Key, ...]], roots: set[int]) -> set[int]:
    found = set(roots)
    while True:
        known = {col.name for place in found for col in outputs(node.inputs[place])}
        more = {p for p, own in enumerate(keys) if p not in found and any(probed(node.on, key, known) for key in own)}
        if not more:
            return found
        found |= more


def probed(on: Sequence[Expr], key: Key, known: set[str]) -> bool:
    """True where conditions equate every column of `key` with something over the `known` columns."""
    return all(any(_equates(condition, name, known) for condition in on) for name in key)


def _equates(condition: Expr, name: str, known: set[str]) -> bool:
    if not (isinstance(condition, Call) and condition.op == "compare" and condition.detail == "="):
        return False
    left, right = map(_unconverted, condition.args)
    return any(
        isinstance(one, Col) and one.name == name and names(other) <= known
        for one, other in ((left, right), (right, left))
    )


def _unconverted(expr: Expr) -> Expr:
    """An integer made wider to be compared is still that integer."""
    if isinstance(expr, Call) and expr.op == "convert" and kind(expr.args[0].pg) == "int":
        return expr.args[0]
    return expr
