"""A compiled view: what it reads, what it gives, what it must remember, and the algebra that says how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.relation.schema import Column, Schema
from penstock.views.algebra import Aggregate, Leaf, Node, Read, Relation, inputs
from penstock.views.rules import RULES


@dataclass(frozen=True)
class OperatorState:
    """What an operator of the view remembers between refreshes: a relation beside the view, keyed by its groups."""

    name: str
    schema: Schema
    columns: tuple[tuple[str, Column], ...]  # name in the tree, column of the state
    singleton: bool  # exactly one row, always


@dataclass(frozen=True)
class View:
    """`key` is () when unknown, and also for a `singleton`, which has at most one row."""

    name: str
    sql: str
    inputs: tuple[Relation, ...]
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    used_columns: Mapping[str, tuple[str, ...]]
    plan: Node
    states: tuple[OperatorState, ...]
    singleton: bool = False

    @property
    def schema(self) -> Schema:
        return Schema(self.columns, self.key)


def state_leaves(view: View) -> dict[Aggregate, Leaf]:
    """Each aggregate's remembered rows at the start of the refresh."""
    return {
        node: Leaf(Read("state", state.name), state.columns)
        for node, state in zip(remembering(view.plan), view.states, strict=True)
    }


def remembering(plan: Node) -> tuple[Aggregate, ...]:
    """Each different aggregate of the plan, and of what its operators are made of, once, inner ones first: its place is
    its state's number."""
    found: dict[Aggregate, None] = {}
    seen: set[Node] = set()

    def visit(node: Node) -> None:
        if node in seen:
            return
        seen.add(node)
        definition = RULES[type(node)].definition
        for child in inputs(node) if definition is None else (definition(node),):
            visit(child)
        if isinstance(node, Aggregate):
            found[node] = None

    visit(plan)
    return tuple(found)


def state_of(node: Aggregate, place: int) -> OperatorState:
    keys = tuple((name, Column(f"g{i}", e.pg, e.spark)) for i, (name, e) in enumerate(node.keys))
    columns = keys + tuple((m.name, m.column) for m in node.measures)
    schema = Schema(tuple(column for _, column in columns), key=tuple(column.name for _, column in keys))
    return OperatorState(f"agg{place}", schema, columns, singleton=not keys)
