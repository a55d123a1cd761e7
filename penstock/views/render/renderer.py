"""An algebra tree becomes SQL: one block per stretch of foldable operators, one CTE per node that is used twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from penstock.views.algebra import (
    Constants,
    Empty,
    Exists,
    Expand,
    Filter,
    Group,
    Join,
    Leaf,
    Negate,
    Net,
    Node,
    OuterJoin,
    Project,
    Repeat,
    SemiJoin,
    Shift,
    UnionAll,
    Weigh,
    Window,
    inputs,
    outputs,
)  # fmt: skip
from penstock.views.expr import BOOL, INT8, Col, Expr, call, lit, substitute
from penstock.views.expressions.sql import Sql, number
from penstock.views.render.block import Block, Source, placed, select
from penstock.views.render.dialect import Dialect
from penstock.views.render.expanded import expanded
from penstock.views.render.groups import grouped, netted, repeated, shifted
from penstock.views.render.one_partition import gathered_if_joined
from penstock.views.render.placeholder import placeholder
from penstock.views.render.windows import window_function
from penstock.zset import WEIGHT

Folder = Callable[["Renderer", Any], Block]


class Renderer:
    """Renders the trees of one statement; `ctes` gathers what it shares."""

    def __init__(self, dialect: Dialect, roots: Iterable[Node]) -> None:
        self.dialect = dialect
        self.ctes: list[exp.CTE] = []
        self._uses = _uses(roots)
        self._shared: dict[int, str] = {}
        self._aliases = 0

    def block(self, node: Node) -> Block:
        if self._uses[id(node)] > 1 and not isinstance(node, Leaf):
            return self._from_cte(node)
        return self._folded(node)

    def open_block(self, node: Node) -> Block:
        """A block that can take more: the node's own, or one that selects from it."""
        block = self.block(node)
        return block if block.open else self.wrapped(block, node)

    def wrapped(self, block: Block, node: Node) -> Block:
        weighted = is_weighted(node)
        return self.over(select(block, self.dialect, weighted=weighted), node, weighted=weighted)

    def over(self, table: Sql, node: Node, *, weighted: bool, prefix: str = "t") -> Block:
        alias = self.alias(prefix)
        items: dict[str, Expr] = {c.name: Col(c.name, c.pg, c.spark, c.nullable, alias) for c in outputs(node)}
        weight: list[Expr] = [Col(WEIGHT, INT8, "bigint", False, alias)] if weighted else []
        return Block([Source(table, alias)], items, weight)

    def shared(self, node: Node) -> bool:
        return id(node) in self._shared

    def alias(self, prefix: str = "t") -> str:
        self._aliases += 1
        return f"{prefix}{self._aliases}"

    def _folded(self, node: Node) -> Block:
        return _FOLDERS[type(node)](self, node)

    def _from_cte(self, node: Node) -> Block:
        weighted = is_weighted(node)
        if id(node) not in self._shared:
            query = select(self._folded(node), self.dialect, weighted=weighted)
            if self.dialect.in_memory:
                query = gathered_if_joined(query)
            name = f"q{len(self._shared) + 1}"
            self._shared[id(node)] = name
            self.ctes.append(exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(name))))
        return self.over(exp.to_table(self._shared[id(node)]), node, weighted=weighted)


def is_weighted(node: Node) -> bool:
    """False where every row counts once: plain rows and groups."""
    match node:
        case Leaf():
            return node.read.kind not in ("rows", "part_rows")
        case Constants() | Group() | Repeat() | Window():
            return False
        case Negate() | Net() | Shift() | Weigh():
            return True
        case SemiJoin() | Exists():
            return is_weighted(node.input)
        case _:
            return any(is_weighted(child) for child in inputs(node))


def _uses(roots: Iterable[Node]) -> Counter[int]:
    """How often each node is an input, a node's own inputs counted once."""
    counts: Counter[int] = Counter()

    def visit(node: Node) -> None:
        counts[id(node)] += 1
        if counts[id(node)] == 1:
            for child in inputs(node):
                visit(child)

    for root in roots:
        visit(root)
    return counts


# One folder per node --------------------------------------------------------------------------------------------------


def _leaf(render: Renderer, node: Leaf) -> Block:
    alias = render.alias(node.read.kind[0])
    items: dict[str, Expr] = {
        name: Col(column.name, column.pg, column.spark, column.nullable, alias) for name, column in node.columns
    }
    weight: list[Expr] = [Col(WEIGHT, INT8, "bigint", False, alias)] if is_weighted(node) else []
    return Block([Source(exp.to_table(placeholder(node.read)), alias)], items, weight)


def _empty(render: Renderer, node: Empty) -> Block:
    nulls: list[Sql] = [
        exp.alias_(render.dialect.cast(exp.Null(), c.pg, c.spark), exp.to_identifier(name, quoted=True))
        for name, c in node.columns
    ]
    block = render.over(exp.Select(expressions=nulls), node, weighted=False)
    block.where.append(lit("false", BOOL))
    return block


def _constants(render: Renderer, node: Constants) -> Block:
    names = [name for name, _ in node.columns]
    rows = [
        exp.Select(
            expressions=[
                exp.alias_(render.dialect.expression(value), exp.to_identifier(name, quoted=True))
                for name, value in zip(names, row, strict=True)
            ]
            or [exp.alias_(number("1"), "_one")]
        )
        for row in node.rows
    ]
    return render.over(union(rows), node, weighted=False, prefix="v")


def _filter(render: Renderer, node: Filter) -> Block:
    block = render.open_block(node.input)
    block.where += [block.over(predicate) for predicate in node.predicates]
    return block


def _project(render: Renderer, node: Project) -> Block:
    block = render.open_block(node.input)
    block.items = {name: block.over(expr) for name, expr in node.items}
    return block


def _negate(render: Renderer, node: Negate) -> Block:
    block = render.open_block(node.input)
    block.negative = not block.negative
    return block


def _weigh(render: Renderer, node: Weigh) -> Block:
    block = render.open_block(node.input)
    block.weight.append(block.over(node.times))
    return block


def _join(render: Renderer, node: Join) -> Block:
    blocks = [render.open_block(child) for child in node.inputs]
    blocks = [
        block if len(block.sources) == 1 and not block.negative else render.wrapped(block, child)
        for block, child in zip(blocks, node.inputs, strict=True)
    ]
    whole = Block([], {})
    for block in blocks:
        whole.sources += block.sources
        whole.items |= block.items
        whole.weight += block.weight
        whole.where += block.where
    conditions = [whole.over(condition) for condition in node.on]
    aliases = [{source.alias} for source in whole.sources]
    for source, found in zip(whole.sources, placed(conditions, aliases), strict=True):
        source.on = found
    first = whole.sources[0]
    first.broadcast = node.small
    whole.where += first.on
    first.on = []
    return whole


def _outer_join(render: Renderer, node: OuterJoin) -> Block:
    """In the engine's own words; the side that may be missing is a table of plain columns."""
    block = _table(render, node.left) if node.full else render.open_block(node.left)
    other = _table(render, node.right)
    given = block.items | other.items
    block.items = {col.name: _optional(given[col.name], col) for col in outputs(node)}
    block.weight = [*(map(_or_1, block.weight) if node.full else block.weight), *map(_or_1, other.weight)]
    (source,) = other.sources
    source.how = "full" if node.full else "left"
    source.on = [substitute(condition, given) for condition in node.on]
    block.sources.append(source)
    return block


def _table(render: Renderer, node: Node) -> Block:
    block = render.block(node)
    plain = block.open and len(block.sources) == 1 and not block.where and not block.negative
    if plain and all(isinstance(item, Col) for item in block.items.values()):
        return block
    return render.wrapped(block, node)


def _optional(item: Expr, col: Col) -> Expr:
    return replace(item, nullable=item.nullable or col.nullable) if isinstance(item, Col) else item


def _or_1(weight: Expr) -> Expr:
    return call("coalesce", weight, lit(1, INT8), pg=INT8)


def _exists(render: Renderer, node: Exists) -> Block:
    block = render.open_block(node.input)
    other = _table(render, node.by)
    given = block.items | other.items
    (source,) = other.sources
    source.how = "anti" if node.negated else "semi"
    source.on = [substitute(condition, given) for condition in node.on]
    block.sources.append(source)
    return block


def _union_all(render: Renderer, node: UnionAll) -> Block:
    weighted, given = is_weighted(node), outputs(node)
    branches = []
    for child in node.inputs:
        block = render.block(child)
        if block.open:
            block.items = {col.name: block.items[col.name] for col in given}
        branches.append(select(block, render.dialect, weighted=weighted))
    return render.over(render.dialect.gathered(union(branches)), node, weighted=weighted, prefix="u")


def union(branches: list[exp.Select]) -> Sql:
    whole: Sql = branches[0]
    for branch in branches[1:]:
        whole = exp.Union(this=whole, expression=branch, distinct=False)
    return whole


def _semi_join(render: Renderer, node: SemiJoin) -> Block:
    block = render.open_block(node.input)
    by = render.block(node.by)
    alias = render.alias("k")
    table: Sql = by.sources[0].table if render.shared(node.by) else select(by, render.dialect, weighted=False)
    matches: list[Expr] = []
    for mine, theirs in zip(node.keys, node.by_keys, strict=True):
        other = Col(theirs.name if isinstance(theirs, Col) else "", theirs.pg, theirs.spark, True, alias)
        matches.append(call("compare", block.over(mine), other, pg=BOOL, detail="<=>"))
    block.sources.append(Source(table, alias, matches, how="semi", broadcast=node.small))
    return block


def _net(render: Renderer, node: Net) -> Block:
    return netted(render.open_block(node.input), render.dialect)


def _window(render: Renderer, node: Window) -> Block:
    block = render.open_block(node.input)
    block.measures = {f.name: window_function(f, node, block, render.dialect) for f in node.functions}
    return render.over(select(block, render.dialect, weighted=False), node, weighted=False)


def _expand(render: Renderer, node: Expand) -> Block:
    return expanded(render, node, weighted=is_weighted(node))


def _group(render: Renderer, node: Group) -> Block:
    return grouped(render.open_block(node.input), node, render.dialect)


def _shift(render: Renderer, node: Shift) -> Block:
    return shifted(render, node)


_FOLDERS: dict[type, Folder] = {
    Leaf: _leaf, Empty: _empty, Constants: _constants, Filter: _filter, Project: _project, Join: _join,
    OuterJoin: _outer_join, Exists: _exists, UnionAll: _union_all, Negate: _negate,
    SemiJoin: _semi_join, Weigh: _weigh, Net: _net, Repeat: repeated, Window: _window, Expand: _expand,
    Group: _group, Shift: _shift,
}  # fmt: skip
