"""A set operation in SQL: columns by place, in the types that PostgreSQL gives both sides together; then algebra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views.algebra import Project
from penstock.views.expr import Col, Expr, kind
from penstock.views.expressions.casts import cast_to
from penstock.views.expressions.comparison import check_comparable
from penstock.views.expressions.convert import common
from penstock.views.first_rows import limit_of, limited
from penstock.views.scope import Lowered
from penstock.views.set_operations import OPERATIONS
from penstock.views.typer import Typer, twin
from penstock.views.windows import ordered_by

Name = Callable[..., str]


def set_operation(tree: exp.SetOperation, sides: Sequence[Lowered], typer: Typer, name: Name) -> Lowered:
    columns = []
    converted: list[list[Expr]] = [[], []]
    for place, pg in enumerate(_types(sides, typer)):
        called = sides[0].columns[place][0]
        pair = common([to_type(side.columns[place][1], pg) for side in sides], tree.key.upper(), pg)
        columns.append((called, Col(name("", called), pair[0].pg, pair[0].spark)))
        for side, expr in enumerate(pair):
            converted[side].append(expr)
    names = [col.name for _, col in columns]
    left, right = (
        Project(side.node, tuple(zip(names, exprs, strict=True))) for side, exprs in zip(sides, converted, strict=True)
    )
    once = bool(tree.args.get("distinct"))
    if once or not isinstance(tree, exp.Union):
        check_comparable(tree.key.upper(), [col for _, col in columns], ordered=False)
    return _ordered(tree, Lowered(OPERATIONS[tree.key, once](left, right), tuple(columns)), name)


def _ordered(tree: exp.SetOperation, lowered: Lowered, name: Name) -> Lowered:
    limit = limit_of(tree)
    if limit is None:
        return lowered
    given = dict(lowered.columns)
    order = list(tree.args["order"].expressions) if tree.args.get("order") else []
    if any(not isinstance(one.this, exp.Column) or one.this.name not in given for one in order):
        raise UnsupportedQuery("ORDER BY of a set operation names its result columns", hint="Name a column.")
    orders = [ordered_by(given[one.this.name], one) for one in order]
    node = limited(lowered.node, (), orders, limit, name)
    return replace(lowered, node=Project(node, tuple((col.name, col) for _, col in lowered.columns)))


def _types(sides: Sequence[Lowered], typer: Typer) -> list[PgType]:
    twins = [twin("t", [(f"c{i}", col.pg) for i, (_, col) in enumerate(side.columns)]) for side in sides]
    both = " UNION ALL ".join(f"SELECT * FROM {found.sql(dialect='postgres')}" for found in twins)
    told = [column.pg for column in typer.describe(both)]
    first, second = (side.columns for side in sides)
    # A type of the source that this server does not know (an enum) was stood in for by text.
    return [a.pg if a.pg == b.pg else pg for (_, a), (_, b), pg in zip(first, second, told, strict=True)]


def to_type(expr: Expr, pg: PgType) -> Expr:
    if expr.pg == pg or kind(expr.pg) == kind(pg):
        return expr
    return cast_to(expr, pg)
