"""All outputs of a refresh as one statement: a struct column per output, NULL where the row is not of that output.

The view is often only a filter and a projection over an operator's change; then both structs are made from one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import ConfigError
from penstock.relation.schema import Column
from penstock.views.algebra import Empty, Filter, Node, Project, outputs
from penstock.views.expr import Expr, substitute
from penstock.views.expressions.comparison import all_of
from penstock.views.expressions.sql import Sql, case, fn
from penstock.views.render.block import Block, select, weight_of
from penstock.views.render.dialect import Dialect
from penstock.views.render.renderer import Renderer, union
from penstock.zset import WEIGHT

Layout = Mapping[str, Sequence[Column]]


@dataclass(frozen=True)
class _Shape:
    """An output as conditions and expressions over a base."""

    base: Node
    predicates: tuple[Expr, ...]
    items: Mapping[str, Expr]


def combined(trees: Mapping[str, Node], layout: Layout, dialect: Dialect) -> Sql:
    if dialect.name != "spark" or not trees:
        raise ConfigError("nothing to combine", hint="Only a Spark program with outputs has one statement for all.")
    shapes = {name: _peeled(tree) for name, tree in trees.items()}
    bases = list({id(shape.base): shape.base for shape in shapes.values()}.values())
    bases = [base for base in bases if not isinstance(base, Empty)] or bases[:1]
    render = Renderer(dialect, bases)
    branches = []
    for base in bases:
        block = render.open_block(base)
        here = {name: shape for name, shape in shapes.items() if shape.base is base}
        branches.append(_branch(block, here, layout, dialect))
    query = branches[0] if len(branches) == 1 else union(branches)
    if render.ctes:
        query.set("with_", exp.With(expressions=render.ctes))
    return query


def _peeled(node: Node) -> _Shape:
    items: dict[str, Expr] = {col.name: col for col in outputs(node)}
    predicates: tuple[Expr, ...] = ()
    while isinstance(node, (Project, Filter)):
        if isinstance(node, Project):
            stands = dict(node.items)
            items = {name: substitute(e, stands) for name, e in items.items()}
            predicates = tuple(substitute(p, stands) for p in predicates)
        else:
            predicates = node.predicates + predicates
        node = node.input
    return _Shape(node, predicates, items)


def _branch(block: Block, here: Mapping[str, _Shape], layout: Layout, dialect: Dialect) -> exp.Select:
    if len(here) == 1:  # a condition on every row is a WHERE
        ((name, shape),) = here.items()
        block.where += [block.over(p) for p in shape.predicates]
        here = {name: _Shape(shape.base, (), shape.items)}
    weight = weight_of(block, dialect)
    structs = {
        name: _struct(block, here[name], columns, dialect) if name in here else _absent(columns, dialect)
        for name, columns in layout.items()
    }
    given = Block(block.sources, {}, where=block.where, measures={WEIGHT: weight, **structs})
    return select(given, dialect, weighted=False)


def _struct(block: Block, shape: _Shape, columns: Sequence[Column], dialect: Dialect) -> Sql:
    parts: list[Sql] = []
    for name, expr in zip([c.name for c in columns], shape.items.values(), strict=True):
        parts += [exp.Literal.string(name), dialect.expression(block.over(expr))]
    whole = fn("NAMED_STRUCT", *parts)
    if not shape.predicates:
        return whole
    # A struct that may be NULL needs fields that may be: without this, Arrow refuses a NULL struct of count(*).
    absent = _absent(columns, dialect)
    return case((dialect.expression(block.over(all_of(shape.predicates))), whole), default=absent)


def _absent(columns: Sequence[Column], dialect: Dialect) -> Sql:
    fields = [
        exp.ColumnDef(this=exp.to_identifier(c.name, quoted=True), kind=exp.DataType.build(c.spark, dialect="spark"))
        for c in columns
    ]
    return exp.Cast(this=exp.Null(), to=exp.DataType(this=exp.DataType.Type.STRUCT, expressions=fields, nested=True))
