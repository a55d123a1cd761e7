"""The change of a tree, from the rules of its operators: Δ, the state before, and the state after, of any node.

Δ is None where no input under the node changed; its state is then one and the same before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.views.algebra import Aggregate, Leaf, Node, Read, Scan, walk
from penstock.views.rewrites.tree import children, over

When = Literal["before", "after"]
BROADCAST_ROWS = 1_000_000


@dataclass(frozen=True)
class Rule:
    """How one operator changes; `at` gives its state where that is more than itself over its inputs' states."""

    law: str
    delta: Callable[[Any, Differentiator], Node | None]
    at: Callable[[Any, Differentiator, When], Node] | None = None
    definition: Callable[[Any], Node] | None = None  # what it is made of, where that says all


@dataclass
class Differentiator:
    """Applies `rules` to one view for one set of changed inputs; every result is made once and shared."""

    rules: Mapping[type, Rule]
    changed: frozenset[str]
    states: Mapping[Aggregate, Leaf]
    sizes: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    growing: frozenset[str] = frozenset()  # inputs whose change takes no row away
    laws: list[str] = field(default_factory=list)
    _deltas: dict[Node, Node | None] = field(default_factory=dict)
    _at: dict[tuple[Node, When], Node] = field(default_factory=dict)

    def delta(self, node: Node) -> Node | None:
        if node not in self._deltas:
            found = self.rules[type(node)].delta(node, self) if self.touches(node) else None
            if found is not None and (law := self.rules[type(node)].law) not in self.laws:
                self.laws.append(law)
            self._deltas[node] = found
        return self._deltas[node]

    def at(self, node: Node, when: When) -> Node:
        return self._state(node, when)

    def before(self, node: Node) -> Node:
        return self._state(node, "before")

    def after(self, node: Node) -> Node:
        return self._state(node, "after")

    def touches(self, node: Node) -> bool:
        return any(isinstance(n, Scan) and n.relation.name in self.changed for n in walk(node))

    def size(self, node: Node) -> int:
        """Rows of the inputs under a node, as far as they are known."""
        return sum(self.sizes.get(n.relation.name, 0) for n in walk(node) if isinstance(n, Scan))

    def is_small(self, node: Node) -> bool:
        """Whether the change of a node may be broadcast: too many changed rows would not fit into every task."""
        scanned = {n.relation.name for n in walk(node) if isinstance(n, Scan)}
        return sum(self.changes.get(name, 0) for name in scanned) <= BROADCAST_ROWS

    def _state(self, node: Node, when: When) -> Node:
        if not self.touches(node):
            when = "after"  # the same rows at both ends: one form lets the engine read them once
        if (node, when) not in self._at:
            self._at[node, when] = self._made(node, when)
        return self._at[node, when]

    def _made(self, node: Node, when: When) -> Node:
        at = self.rules[type(node)].at
        if at is not None:
            return at(node, self, when)
        return over(node, tuple(self._state(child, when) for child in children(node)))


def defined(law: str, definition: Callable[[Any], Node]) -> Rule:
    """The rule of an operator that is made of others: it changes as they do."""
    return Rule(
        law,
        lambda node, diff: diff.delta(definition(node)),
        lambda node, diff, when: diff.at(definition(node), when),
        definition,
    )


def leaf(node: Scan, kind: Literal["delta", "before", "after", "rows"]) -> Leaf:
    return Leaf(Read(kind, node.relation.name), node.columns)
