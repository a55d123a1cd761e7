"""What one refresh computes, as data: a SELECT per output over placeholder tables, to be bound and run by the lake.

`full` recomputes everything from plain rows; `delta` has only the terms of the inputs that changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from penstock.relation.schema import Column
from penstock.views.algebra import (
    Aggregate,
    Empty,
    Group,
    Leaf,
    Node,
    Project,
    Read,
    Repeat,
    Scan,
    Window,
    outputs,
    walk,
)
from penstock.views.one_join import one_join
from penstock.views.parts import MOST, shared_parts
from penstock.views.reach import Reach, reach
from penstock.views.render import IN_MEMORY, SPARK, Dialect, Renderer, dialect_of
from penstock.views.render.block import select
from penstock.views.render.combine import combined
from penstock.views.render.renderer import is_weighted
from penstock.views.rewrites.tree import children, over
from penstock.views.rules import RULES, Differentiator
from penstock.views.rules.differentiator import leaf
from penstock.views.view import View, state_leaves

VIEW = "view"


@dataclass(frozen=True)
class Output:
    """One result: its columns, then `_weight`. Rows may repeat and cancel; who stores them consolidates."""

    columns: tuple[Column, ...]
    tree: Node
    dialect: Dialect

    @cached_property
    def sql(self) -> str:
        """Rendered when asked for: a refresh needs either this of each output or the program's `combined_sql`."""
        return self.dialect.text(_statement(Renderer(self.dialect, [self.tree]), self.tree))


@dataclass(frozen=True)
class Part:
    """Rows that several places of a program read: computed before it, and bound as `read`."""

    read: Read
    tree: Node
    dialect: Dialect

    @cached_property
    def sql(self) -> str:
        weighted = is_weighted(self.tree)
        return self.dialect.text(_statement(Renderer(self.dialect, [self.tree]), self.tree, weighted=weighted))


@dataclass(frozen=True)
class Program:
    """`outputs` are the view and every operator state, by name; one that cannot change selects no rows.

    `reads` are the placeholder tables (`placeholder(read)`) that the SQL names:
    delta    the input's consolidated changes: used columns and `_weight`
    before   the input's rows at the start, as a Z-set: used columns and `_weight`, not necessarily netted
    after    the same at the end; also for inputs that did not change
    rows     the input's plain rows at the end: used columns
    state    an operator state's rows at the start, as a Z-set like `before`
    terms    the `forms` of an input one after the other, with the number of each, from 0 on, as `_term`

    `parts` are computed before the outputs, in order, each over `reads` and the parts before it.
    """

    outputs: Mapping[str, Output]
    reads: frozenset[Read]
    laws: tuple[str, ...]
    dialect: Dialect
    parts: tuple[Part, ...] = ()

    @cached_property
    def reach(self) -> tuple[Reach, ...]:
        """Of which reads only some rows matter, and which."""
        return reach(output.tree for output in self.outputs.values())

    def in_memory(self) -> Program:
        """The same where every read is a small table in memory: see `one_join`."""
        trees = one_join({name: output.tree for name, output in self.outputs.items()})
        columns = {name: output.columns for name, output in self.outputs.items()}
        return _program(columns, trees, self.laws, IN_MEMORY if self.dialect is SPARK else self.dialect)

    def parted(self, most: int = MOST, *, in_memory: bool | None = None) -> Program:
        """The same with what it uses again and again computed before: see `parts`."""
        small = self.dialect.in_memory if in_memory is None else in_memory
        given = {name: output.tree for name, output in self.outputs.items()}
        found, trees = shared_parts(given, most, in_memory=small)
        parts = tuple(Part(leaf.read, tree, self.dialect) for leaf, tree in found)
        left = {name: replace(output, tree=trees[name]) for name, output in self.outputs.items()}
        return replace(self, outputs=left, parts=parts) if parts else self

    def combined_sql(self) -> str:
        """All outputs in one SELECT (Spark): `_weight`, and a struct column per output named as it.

        A row belongs to every output whose struct is not NULL: a change of a group and the view's row made from it are
        one row, so Spark computes them once. `split` takes the collected table apart.
        """
        trees = {name: output.tree for name, output in self.outputs.items()}
        layout = {name: output.columns for name, output in self.outputs.items()}
        return self.dialect.text(combined(trees, layout, self.dialect))


def full(view: View, dialect: str = "spark") -> Program:
    """Everything computed anew: each output's whole contents, every row with weight +1."""
    made: dict[Node, Node] = {}
    trees = {VIEW: _plain(view.plan, made)}
    for node, state in zip(state_leaves(view), view.states, strict=True):
        trees[state.name] = _state_tree(_plain(node, made), node, view)
    return _program(_columns(view), trees, ("full recompute",), dialect_of(dialect))


def delta(
    view: View,
    changed: frozenset[str],
    dialect: str = "spark",
    sizes: Mapping[str, int] | None = None,
    changes: Mapping[str, int] | None = None,
    growing: frozenset[str] = frozenset(),
) -> Program:
    """The changes of the outputs from those of the `changed` inputs.

    Where they are known, `sizes` (rows of an input) choose the form of the join law, and `changes` (changed rows of an
    input) keep large changes from being broadcast. What is `growing` lost no row: its extremes need no rescan.
    """
    diff = Differentiator(RULES, changed, state_leaves(view), sizes or {}, changes or {}, growing)
    trees: dict[str, Node] = {VIEW: diff.delta(view.plan) or _nothing(view.columns)}
    for node, state in zip(diff.states, view.states, strict=True):
        moved = diff.delta(node)
        trees[state.name] = _nothing(state.schema.columns) if moved is None else _state_tree(moved, node, view)
    return _program(_columns(view), trees, tuple(diff.laws), dialect_of(dialect))


def minds_growth(view: View) -> bool:
    """Whether it matters for `delta` that a change takes no row away: only to extremes, which then need no rescan."""
    return any(measure.is_extreme for node in state_leaves(view) for measure in node.measures)


def _nothing(columns: tuple[Column, ...]) -> Empty:
    return Empty(tuple((column.name, column) for column in columns))


def _plain(node: Node, made: dict[Node, Node]) -> Node:
    """The tree over plain rows; a part used twice stays one part."""
    if node not in made:
        if isinstance(node, Scan):
            made[node] = leaf(node, "rows")
        elif isinstance(node, Aggregate):
            rows = _plain(node.input, made)
            if is_weighted(rows) and any(measure.by_row for measure in node.measures):
                rows = Repeat(rows)
            made[node] = Group(rows, node.keys, node.measures)
        elif isinstance(node, Window):
            rows = _plain(node.input, made)
            made[node] = over(node, (Repeat(rows) if is_weighted(rows) else rows,))
        else:
            made[node] = over(node, tuple(_plain(child, made) for child in children(node)))
    return made[node]


def _state_tree(rows: Node, node: Aggregate, view: View) -> Node:
    """The aggregate's rows under the names its state stores them by."""
    stored = dict(state_leaves(view)[node].columns)
    return Project(rows, tuple((stored[col.name].name, col) for col in outputs(rows)))


def _columns(view: View) -> dict[str, tuple[Column, ...]]:
    return {VIEW: view.columns, **{state.name: state.schema.columns for state in view.states}}


def _program(
    columns: Mapping[str, tuple[Column, ...]], trees: Mapping[str, Node], laws: tuple[str, ...], dialect: Dialect
) -> Program:
    made = {name: Output(columns[name], tree, dialect) for name, tree in trees.items()}
    reads = frozenset(node.read for tree in trees.values() for node in walk(tree) if isinstance(node, Leaf))
    return Program(made, reads, laws, dialect)


def _statement(render: Renderer, tree: Node, *, weighted: bool = True) -> exp.Expr:
    query = select(render.block(tree), render.dialect, weighted=weighted)
    if render.ctes:
        query.set("with_", exp.With(expressions=render.ctes))
    return query
