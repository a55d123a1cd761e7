"""A SELECT over tables and stream tables, answered by Spark, with everything it reads at one frontier."""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from penstock.catalog import relations, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.cut import Frontier
from penstock.errors import ConfigError, InvalidQuery, NotYet
from penstock.lake.reader import Reader
from penstock.refresh.positions import position_at, readable


def select(catalog: Catalog, reader: Reader, statement: str, *, dialect: str = "spark") -> DataFrame:
    tree = _parse(statement, dialect)
    known = relations.every(catalog)
    names: dict[str, Relation] = {}
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                relation = relations.choose(known, ".".join(part.name for part in source.parts))
                names[relation.name] = relation
                _rename(source, _view_name(relation))
    at = _one_frontier(catalog, names)
    for relation in names.values():
        frame = reader.rows(relation, position_at(catalog, relation, at[relation.name]))
        frame.createOrReplaceTempView(_view_name(relation))
    try:
        return reader.spark().sql(tree.sql(dialect="spark"))
    except PySparkException as error:
        raise InvalidQuery(str(error).splitlines()[0], hint="Check the names and types in the query.") from error


def _parse(statement: str, dialect: str) -> exp.Expr:
    verb = statement.strip().split(None, 1)[:1]
    if not verb or verb[0].upper() not in ("SELECT", "WITH", "VALUES", "("):
        raise NotYet(
            f"the statement {verb[0].upper() if verb else ''}".strip(),
            hint="A SELECT can be run; the rest is there as calls and commands.",
        )
    try:
        return sqlglot.parse_one(statement, dialect=dialect)
    except SqlglotError as error:
        first = str(error).splitlines()[0]
        raise InvalidQuery(f"this is not {dialect} SQL: {first}", hint="Check the statement.") from error


def _one_frontier(catalog: Catalog, names: Mapping[str, Relation]) -> dict[str, Frontier]:
    """Tables are read where the stream tables beside them are, so that the answer is not torn."""
    views = {name: stream_tables.get(catalog, name) for name, one in names.items() if one.kind == "view"}
    for name, table in views.items():
        if table.frontier is None:
            raise ConfigError(f"stream table {name!r} was never refreshed", hint=f"Run `penstock refresh {name}`.")
    reached = [table.frontier for table in views.values() if table.frontier is not None]
    tables = Frontier({**readable(catalog), **Frontier.meet(reached)})
    own = {name: table.frontier for name, table in views.items() if table.frontier is not None}
    return {name: own.get(name, tables) for name in names}


def _view_name(relation: Relation) -> str:
    return "penstock_" + relation.name.replace(".", "__")


def _rename(table: exp.Table, name: str) -> None:
    alias = table.alias_or_name
    table.replace(exp.alias_(exp.table_(name), alias, table=True))
