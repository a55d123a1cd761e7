"""A SELECT over tables and stream tables, answered by Spark, with everything it reads at one frontier."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from penstock.catalog import relations, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.cut import Frontier
from penstock.errors import ConfigError, InvalidQuery, NotRetained
from penstock.lake.reader import Reader
from penstock.parsing import parse_one
from penstock.refresh.positions import position_at, readable


def select(
    catalog: Catalog, reader: Reader, statement: str, *, dialect: str = "spark", at: Frontier | None = None
) -> DataFrame:
    tree = _parse(statement, dialect)
    known = relations.every(catalog)
    names: dict[str, Relation] = {}
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table):
                relation = relations.choose(known, ".".join(part.name for part in source.parts))
                names[relation.name] = relation
                _rename(source, _view_name(relation))
    common = one_frontier(catalog, list(names.values())) if at is None else at
    for relation in names.values():
        position = _position(catalog, relation, common)
        shaped = relations.at(catalog, relation, position) if relation.source else relation
        frame = reader.rows(shaped, position)
        frame.createOrReplaceTempView(_view_name(relation))
    try:
        return reader.spark().sql(tree.sql(dialect="spark"))
    except PySparkException as error:
        raise InvalidQuery(str(error).splitlines()[0], hint="Check the names and types in the query.") from error


def _parse(statement: str, dialect: str) -> exp.Expr:
    try:
        return parse_one(statement, dialect)
    except SqlglotError as error:
        first = str(error).splitlines()[0]
        raise InvalidQuery(f"this is not {dialect} SQL: {first}", hint="Check the statement.") from error


def one_frontier(catalog: Catalog, wanted: Sequence[Relation]) -> Frontier:
    """Everything is read at the newest frontier that all the stream tables were at, so that the answer is not torn."""
    views = [stream_tables.get(catalog, one.name) for one in wanted if one.kind == "view"]
    for table in views:
        if table.frontier is None:
            raise ConfigError(
                f"stream table {table.name!r} was never refreshed", hint=f"Run `penstock refresh {table.name}`."
            )
    if not views:
        return readable(catalog)
    common = stream_tables.newest_common(catalog, [table.relation_id for table in views])
    if common is None:
        raise NotRetained(
            f"{', '.join(table.name for table in views)} were never at one frontier together",
            hint="Refresh them in one round: `penstock refresh` without a name, or refresh_all().",
        )
    return Frontier({**readable(catalog), **common})


def _position(catalog: Catalog, relation: Relation, at: Frontier) -> int:
    if relation.source is not None:
        return position_at(catalog, relation, at)
    own = stream_tables.get(catalog, relation.name).frontier
    return position_at(catalog, relation, at.only(own or ()))


def _view_name(relation: Relation) -> str:
    return "penstock_" + relation.name.replace(".", "__")


def _rename(table: exp.Table, name: str) -> None:
    alias = table.alias_or_name
    table.replace(exp.alias_(exp.table_(name), alias, table=True))
