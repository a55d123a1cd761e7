"""SQL in, View out: parse, lower, rewrite; what it gives and remembers is read off the tree. Nothing is executed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import InvalidQuery, UnsupportedQuery
from penstock.relation.schema import Column
from penstock.views import decimals
from penstock.views.algebra import Node, Project, Relation, outputs, scans
from penstock.views.expr import Col, Expr, call, kind
from penstock.views.keys import keys_of
from penstock.views.lower import Lowering
from penstock.views.parse import Resolver, parse_query
from penstock.views.rewrites import rewrite
from penstock.views.scope import Lowered
from penstock.views.typer import Described, Typer
from penstock.views.view import View, remembering, state_of
from penstock.zset import CHANGE_COLUMNS


def compile_view(name: str, sql: str, *, dialect: str = "postgres", resolve: Resolver, typer: Typer) -> View:
    """The view that `sql` defines, or InvalidQuery / UnsupportedQuery with what to do about it."""
    query = parse_query(sql, dialect=dialect, resolve=resolve, typer=typer)
    lowered = Lowering(query.relations, typer).query(query.tree)
    plan = _settle_types(rewrite(_named(lowered, query.columns)))
    if not scans(plan):
        raise UnsupportedQuery("a view that reads no table cannot change", hint="Select from a table.")
    keys = keys_of(plan)
    columns = tuple(Column(col.name, col.pg, col.spark, nullable=col.nullable) for col in outputs(plan))
    return View(
        name=name,
        sql=sql,
        inputs=_relations(plan),
        columns=columns,
        key=tuple(column.name for column in columns if keys and column.name in keys[0]),
        used_columns=_used(plan),
        plan=plan,
        states=tuple(state_of(node, place) for place, node in enumerate(remembering(plan))),
        singleton=frozenset() in keys,
    )


def _named(lowered: Lowered, described: Sequence[Described]) -> Node:
    """The query's result under the names PostgreSQL gives it, each column in its declared type."""
    reserved = [column.name for column in described if column.name in CHANGE_COLUMNS]
    if reserved:
        raise InvalidQuery(f'the column name "{reserved[0]}" is reserved', hint="Name it differently with AS.")
    for told, (name, col) in zip(described, lowered.columns, strict=True):
        if told.name != name and not name.startswith("_col_"):
            raise UnsupportedQuery(
                f'PostgreSQL calls a column "{told.name}" where the view would give "{name}"',
                hint="List the columns instead of *.",
            )
        if kind(col.pg) != "opaque" and kind(col.pg) != kind(told.pg):
            raise UnsupportedQuery(
                f'PostgreSQL gives column "{told.name}" the type {told.pg.name}, the view would give it {col.pg.name}',
                hint="Cast the expression to the type you want.",
            )
    items = zip(described, lowered.columns, strict=True)
    return Project(lowered.node, tuple((told.name, col) for told, (_, col) in items))


def _settle_types(plan: Node) -> Node:
    """Computed numerics leave the view as decimal(38, scale)."""
    if not isinstance(plan, Project):
        return plan
    return Project(plan.input, tuple((name, _wide(expr)) for name, expr in plan.items))


def _wide(expr: Expr) -> Expr:
    if kind(expr.pg) != "numeric" or isinstance(expr, Col):
        return expr
    shape = decimals.name((decimals.MAX, decimals.decimal_of(expr.spark)[1]))
    return call("convert", expr, pg=expr.pg, spark=shape)


def _relations(plan: Node) -> tuple[Relation, ...]:
    return tuple(dict.fromkeys(scan.relation for scan in scans(plan)))


def _used(plan: Node) -> dict[str, tuple[str, ...]]:
    used: dict[str, set[str]] = {}
    for scan in scans(plan):
        used.setdefault(scan.relation.name, set()).update(column.name for _, column in scan.columns)
    return {
        relation.name: tuple(n for n in relation.schema.names if n in used[relation.name])
        for relation in _relations(plan)
    }
