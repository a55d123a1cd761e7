"""A stream table's query as its source database would run it: tables by their full names, views put in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from penstock.catalog import relations
from penstock.catalog.relations import Relation
from penstock.catalog.stream_tables import StreamTable


def source_query(table: StreamTable, known: Sequence[Relation], views: Mapping[str, StreamTable]) -> str:
    """PostgreSQL text that gives the view's rows from the source tables alone."""
    return _tree(table, known, views).sql(dialect="postgres")


def _tree(table: StreamTable, known: Sequence[Relation], views: Mapping[str, StreamTable]) -> exp.Expr:
    tree = sqlglot.parse_one(table.query, dialect="postgres")
    read = [relation for relation in known if relation.id in table.inputs]  # what the names meant when it was made
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and source.parent is not None:
                _put_in_place(source, read, known, views)
    return tree


def _put_in_place(
    table: exp.Table, read: Sequence[Relation], known: Sequence[Relation], views: Mapping[str, StreamTable]
) -> None:
    parts = [part.name if part.args.get("quoted") else part.name.lower() for part in table.parts]
    relation = relations.choose(read, ".".join(parts))
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    if relation.name in views:
        inner = _tree(views[relation.name], known, views)
        table.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=alias)))
        return
    schema, _, name = relation.table.partition(".")
    table.replace(exp.alias_(exp.table_(name, db=schema, quoted=True), alias, table=True))
