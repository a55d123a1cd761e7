"""A stream table's query as its source database would run it: tables by their full names, views put in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from penstock.catalog import relations
from penstock.catalog.relations import Relation
from penstock.catalog.stream_tables import StreamTable
from penstock.parsing import parse_one
from penstock.views.aggregates.ties import settle_ties


def source_query(
    table: StreamTable, known: Sequence[Relation], views: Mapping[str, StreamTable], selected: Mapping[str, str]
) -> str:
    """PostgreSQL text that gives the view's rows from the source tables alone.

    `selected` has a condition for each table that is captured in part; only its captured columns are there to read.
    """
    return _tree(table, known, views, selected).sql(dialect="postgres")


def _tree(
    table: StreamTable, known: Sequence[Relation], views: Mapping[str, StreamTable], selected: Mapping[str, str]
) -> exp.Expr:
    tree = parse_one(table.query)
    settle_ties(tree)
    read = [relation for relation in known if relation.id in table.inputs]  # what the names meant when it was made
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and source.parent is not None:
                _put_in_place(source, read, known, views, selected)
    return tree


def _put_in_place(
    table: exp.Table,
    read: Sequence[Relation],
    known: Sequence[Relation],
    views: Mapping[str, StreamTable],
    selected: Mapping[str, str],
) -> None:
    parts = [part.name if part.args.get("quoted") else part.name.lower() for part in table.parts]
    relation = relations.choose(read, ".".join(parts))
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    if relation.name in views:
        inner = _tree(views[relation.name], known, views, selected)
        table.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=alias)))
        return
    schema, _, name = relation.table.partition(".")
    whole = exp.table_(name, db=schema, quoted=True)
    if relation.table in selected:
        columns = [exp.column(column, quoted=True) for column in relation.schema.names]
        part = exp.select(*columns).from_(whole).where(parse_one(selected[relation.table]))
        table.replace(exp.Subquery(this=part, alias=exp.TableAlias(this=alias)))
        return
    table.replace(exp.alias_(whole, alias, table=True))
