"""Rebuilding a tree: a pass says what one node becomes, this applies it from the leaves up until nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from penstock.views.algebra import (
    Aggregate,
    Exists,
    Expand,
    Filter,
    Join,
    Negate,
    Node,
    OuterJoin,
    Project,
    UnionAll,
    Weigh,
    Window,
)


def over(node: Node, children: tuple[Node, ...]) -> Node:
    """The same operator over other inputs."""
    match node:
        case Filter() | Project() | Aggregate() | Weigh() | Window() | Expand() | Negate():
            return replace(node, input=children[0])
        case Join() | UnionAll():
            return replace(node, inputs=children)
        case OuterJoin():
            return replace(node, left=children[0], right=children[1])
        case Exists():
            return replace(node, input=children[0], by=children[1])
        case _:
            return node


def children(node: Node) -> tuple[Node, ...]:
    match node:
        case Filter() | Project() | Aggregate() | Weigh() | Window() | Expand() | Negate():
            return (node.input,)
        case Join() | UnionAll():
            return node.inputs
        case OuterJoin():
            return (node.left, node.right)
        case Exists():
            return (node.input, node.by)
        case _:
            return ()


def bottom_up(node: Node, step: Callable[[Node], Node]) -> Node:
    below = tuple(bottom_up(child, step) for child in children(node))
    rebuilt = over(node, below)
    found = step(rebuilt)
    return found if found == rebuilt else bottom_up(found, step)


def rebuilt(node: Node, visit: Callable[[Node], Node]) -> Node:
    """The same operator, of a query or of a change, over what `visit` makes of its inputs; itself if these stay."""
    changed: dict[str, object] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changed[field.name] = visit(value)
        elif isinstance(value, tuple) and value and all(isinstance(one, Node) for one in value):
            changed[field.name] = tuple(visit(one) for one in value)
    same = all(new is getattr(node, name) for name, new in changed.items() if not isinstance(new, tuple))
    if same and all(new == getattr(node, name) for name, new in changed.items() if isinstance(new, tuple)):
        return node
    return replace(node, **changed)  # type: ignore[arg-type]
