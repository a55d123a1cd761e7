"""ΔL ⋈ R₀ + L₁ ⋈ ΔR as one join: (ΔL·1 ∪ L₁·2) ⋈ (R₀·1 ∪ ΔR·2), on the law's conditions and equal numbers.

The terms of a join's change are one and the same join over other forms of its inputs. Where all of these are small
tables in memory, the forms of an input are put together under the number of their term, and the engine plans one join
over one table for each input, however many of them changed. Read from files they would be scanned no less often, so
this is only for what is in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.relation.schema import Column
from penstock.views.algebra import Filter, Form, Join, Leaf, Node, Project, Read, UnionAll, outputs, walk
from penstock.views.expr import BOOL, INT4, Col, Expr, call
from penstock.views.rewrites.tree import rebuilt

TERM = "_term"

_FORMS: Mapping[str, Form] = {"delta": "delta", "before": "before", "after": "after"}


def one_join(trees: Mapping[str, Node]) -> dict[str, Node]:
    """The trees with the terms of each join made one where they can be; what they share stays shared."""
    leaves = (node for tree in trees.values() for node in walk(tree) if isinstance(node, Leaf))
    if any(column.name == TERM for node in leaves for _, column in node.columns):
        return dict(trees)
    pass_ = _Pass()
    return {name: pass_.visit(tree) for name, tree in trees.items()}


class _Pass:
    def __init__(self) -> None:
        self._made: dict[int, Node] = {}
        self._joins = 0

    def visit(self, node: Node) -> Node:
        if id(node) not in self._made:
            found = self._joined(node) if isinstance(node, UnionAll) else None
            self._made[id(node)] = found or rebuilt(node, self.visit)
        return self._made[id(node)]

    def _joined(self, node: UnionAll) -> Node | None:
        terms = [_Term.of(branch) for branch in node.inputs]
        first = terms[0]
        if first is None or not all(term is not None and term.alike(first) for term in terms):
            return None
        self._joins += 1
        inputs, numbers = list[Node](), list[Col]()
        for place, names in enumerate(first.inputs):
            number = Col(f"{TERM}{self._joins}_{place}", INT4, "int", False)
            merged = _together([term.inputs[names] for term in terms if term is not None], number.name)
            if merged is None:
                return None
            inputs.append(merged)
            numbers.append(number)
        same = [call("compare", numbers[0], other, pg=BOOL, detail="=") for other in numbers[1:]]
        joined = Join(tuple(inputs), (*first.on, *same))
        return Project(joined, tuple((col.name, col) for col in outputs(node)))


class _Term:
    """A branch that is a projection onto plain columns of a join: the join's inputs by the names of their columns."""

    def __init__(self, inputs: Mapping[frozenset[str], Node], on: tuple[Expr, ...]) -> None:
        self.inputs = inputs
        self.on = on

    @staticmethod
    def of(branch: Node) -> _Term | None:
        if not isinstance(branch, Project) or not isinstance(branch.input, Join):
            return None
        if any(not isinstance(expr, Col) or expr.name != name for name, expr in branch.items):
            return None
        inputs, on = _flat(branch.input)
        named = {frozenset(col.name for col in outputs(node)): node for node in inputs}
        return _Term(named, on) if len(named) == len(inputs) else None  # two that give no columns look alike

    def alike(self, other: _Term) -> bool:
        return self.inputs.keys() == other.inputs.keys() and set(self.on) == set(other.on)


def _flat(node: Join) -> tuple[list[Node], tuple[Expr, ...]]:
    """The inputs and conditions of a join of joins; a step that was joined on its own to be broadcast is none here."""
    inputs, on = list[Node](), node.on
    for child in node.inputs:
        if isinstance(child, Join):
            below, conditions = _flat(child)
            inputs += below
            on = (*on, *conditions)
        else:
            inputs.append(child)
    return inputs, on


def _together(nodes: Sequence[Node], number: str) -> Node | None:
    """The same operators over other forms of one relation, as one; a column says which of the nodes a row is of."""
    first = nodes[0]
    if isinstance(first, Leaf):
        return _leaf([node for node in nodes if isinstance(node, Leaf)], len(nodes), number)
    if isinstance(first, Filter):
        filters = [node for node in nodes if isinstance(node, Filter) and node.predicates == first.predicates]
        below = _together([node.input for node in filters], number) if len(filters) == len(nodes) else None
        return below and Filter(below, first.predicates)
    if isinstance(first, Project):
        projects = [node for node in nodes if isinstance(node, Project) and node.items == first.items]
        below = _together([node.input for node in projects], number) if len(projects) == len(nodes) else None
        return below and Project(below, (*first.items, (number, Col(number, INT4, "int", False))))
    return None


def _leaf(leaves: Sequence[Leaf], terms: int, number: str) -> Leaf | None:
    first = leaves[0]
    forms = tuple(_FORMS[leaf.read.kind] for leaf in leaves if leaf.read.kind in _FORMS)
    alike = all(leaf.read.relation == first.read.relation and leaf.columns == first.columns for leaf in leaves)
    if not alike or len(forms) < terms:
        return None
    read = Read("terms", first.read.relation, forms)
    return Leaf(read, (*first.columns, (number, Column(TERM, INT4, "int", nullable=False))))
