"""What a program uses again and again is computed once, before the rest: a part of it, which the rest then reads.

An engine that puts a CTE in wherever it is named plans, and computes, everything under it as often. Where changes meet
changes on every level, that grows by a factor with each: q21 of TPC-H has 220 operators and 6,200 such uses. A part is
a query of its own, with its own fixed cost, so programs that stay small are left as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.relation.schema import Column
from penstock.views.algebra import (
    Aggregate,
    Constants,
    Empty,
    Exists,
    Filter,
    Group,
    Join,
    Leaf,
    Net,
    Node,
    OuterJoin,
    Project,
    Read,
    Repeat,
    Scan,
    SemiJoin,
    Shift,
    UnionAll,
    Window,
    inputs,
    outputs,
)
from penstock.views.render.renderer import is_weighted
from penstock.views.rewrites.tree import rebuilt

MOST = 200  # what a program may weigh, everything counted as often as it is used
_WORTH = 4  # a part is a query more: the share of `MOST` that it must save at least
_TOO_MUCH = 20  # times `MOST`: then parts may be as large as the tables


def shared_parts(
    trees: Mapping[str, Node], most: int = MOST, *, in_memory: bool = True
) -> tuple[list[tuple[Leaf, Node]], dict[str, Node]]:
    """The parts, in the order in which they can be computed, with what reads them; and the trees that are left.

    Unless everything that is read is small, `in_memory`, parts are such as have no more rows than the changes reach.
    """
    chosen = _chosen([_base(tree) for tree in trees.values()], most, in_memory)
    if not chosen:
        return [], dict(trees)
    cutting = _Cutting({id(node): Leaf(_read(number, node), _columns(node)) for number, node in enumerate(chosen)})
    parts = [(cutting.leaves[id(node)], cutting.below(node)) for node in chosen]
    return parts, {name: cutting.visit(tree) for name, tree in trees.items()}


def _base(node: Node) -> Node:
    """Outputs that are filters and projections of one base are computed together: see `combine`."""
    while isinstance(node, (Filter, Project)):
        node = node.input
    return node


def _chosen(roots: Sequence[Node], most: int, in_memory: bool) -> list[Node]:
    """What saves most first, until the rest is small enough; then in the order of computing."""
    found: dict[int, Node] = {}
    known: dict[int, bool] = {}
    while True:
        uses = _Uses.of([*roots, *found.values()], found)
        if uses.weight <= most:
            break
        few = [node for node in uses.nodes if in_memory or comes_of_changes(node, known)]
        best = max(few, key=uses.saving, default=None)
        if (best is None or not _worth(uses.saving(best), most)) and uses.weight > most * _TOO_MUCH:
            best = max(uses.nodes, key=uses.saving, default=None)  # rather rows that are many than a plan that is
        if best is None or not _worth(uses.saving(best), most):
            break
        found[id(best)] = best
    order = _Uses.of(roots, {}).nodes  # inputs before what reads them
    return [node for node in order if id(node) in found]


@dataclass
class _Uses:
    """Each node under the roots, inputs first, with what it weighs and how often it is used, all uses spelled out."""

    nodes: list[Node] = field(default_factory=list)
    weights: dict[int, int] = field(default_factory=dict)
    times: Counter[int] = field(default_factory=Counter)
    weight: int = 0

    @classmethod
    def of(cls, roots: Sequence[Node], cut: Mapping[int, Node]) -> _Uses:
        """What is `cut` weighs nothing where it is used, and is a root of its own."""
        uses = cls()
        for root in roots:
            uses._visit(root, cut, root=True)
        for root in {id(root): root for root in roots}.values():
            uses.weight += uses.weights[id(root)]
            uses.times[id(root)] += 1
        for node in reversed(uses.nodes):
            for child in inputs(node):
                if id(child) not in cut:
                    uses.times[id(child)] += uses.times[id(node)]
        return uses

    def saving(self, node: Node) -> int:
        if isinstance(node, (Leaf, Empty, Constants)):
            return 0
        return (self.times[id(node)] - 1) * self.weights[id(node)]

    def _visit(self, node: Node, cut: Mapping[int, Node], *, root: bool = False) -> int:
        if id(node) in cut and not root:
            return 0
        if id(node) not in self.weights:
            below = sum(self._visit(child, cut) for child in inputs(node))
            self.weights[id(node)] = _weight(node) + below
            self.nodes.append(node)
        return self.weights[id(node)]


def _worth(saving: int, most: int) -> bool:
    return saving > 0 and saving * _WORTH >= most


def comes_of_changes(node: Node, known: dict[int, bool] | None = None) -> bool:
    """Whether all its rows are of changes, or reached by them, and not those of a whole table.

    What is `known` of shared nodes is not asked again: spelled out, they may be millions.
    """
    known = {} if known is None else known
    if id(node) not in known:
        known[id(node)] = _comes_of_changes(node, known)
    return known[id(node)]


def _comes_of_changes(node: Node, known: dict[int, bool]) -> bool:
    match node:
        case Leaf():
            return node.read.kind == "delta" or "delta" in node.read.forms
        case Scan() | Aggregate():  # of a query, not of a change
            return False
        case Constants() | Empty():
            return True
        case Join():
            return any(comes_of_changes(child, known) for child in node.inputs)
        case UnionAll():
            return all(comes_of_changes(child, known) for child in node.inputs)
        case OuterJoin():
            return comes_of_changes(node.left, known) and (not node.full or comes_of_changes(node.right, known))
        case SemiJoin():
            return comes_of_changes(node.input, known) or comes_of_changes(node.by, known)
        case Shift():
            return comes_of_changes(node.change, known)
        case _:
            return comes_of_changes(node.input, known)


def _weight(node: Node) -> int:
    """About how much it takes to plan."""
    match node:
        case Join():
            return 5 * (len(node.inputs) - 1)
        case OuterJoin() | Exists() | SemiJoin() | Shift():
            return 5
        case Group() | Net() | Window() | Repeat():
            return 3
        case _:
            return 1


def _read(number: int, node: Node) -> Read:
    return Read("part" if is_weighted(node) else "part_rows", str(number))


def _columns(node: Node) -> tuple[tuple[str, Column], ...]:
    return tuple((col.name, Column(col.name, col.pg, col.spark, nullable=col.nullable)) for col in outputs(node))


class _Cutting:
    """Puts a leaf in the place of each part; what is shared stays shared."""

    def __init__(self, leaves: Mapping[int, Leaf]) -> None:
        self.leaves = leaves
        self._made: dict[int, Node] = {}

    def visit(self, node: Node) -> Node:
        return self.leaves.get(id(node)) or self.below(node)

    def below(self, node: Node) -> Node:
        if id(node) not in self._made:
            self._made[id(node)] = rebuilt(node, self.visit)
        return self._made[id(node)]
