"""Rebuilding a tree: a pass says what one node becomes, this applies it from the leaves up until nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
