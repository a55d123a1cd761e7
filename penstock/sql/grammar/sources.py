"""Sources and connectors. A column list says what a captured table must have; options are those of a source."""

from __future__ import annotations

from penstock.sql.cursor import Cursor
from penstock.sql.grammar.options import options
from penstock.sql.statements import CreateSource, DescribeConnector, DropSource


def create(cursor: Cursor) -> CreateSource:
    cursor.accept("TABLE")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a source")
    columns = _columns(cursor) if cursor.accept_symbol("(") else []
    cursor.expect("WITH")
    return CreateSource(name, options(cursor), tuple(columns), if_not_exists)


def drop(cursor: Cursor) -> DropSource:
    cursor.accept("TABLE")
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.name("the name of a source")
    cascade = cursor.accept("CASCADE")
    if not cascade:
        cursor.accept("RESTRICT")
    return DropSource(name, if_exists, cascade, force=cursor.accept("FORCE"))


def describe_connector(cursor: Cursor) -> DescribeConnector:
    connector = cursor.accept_text()
    if connector is None:
        connector = cursor.name("the connector's name")
    return DescribeConnector(connector, options(cursor) if cursor.accept("WITH") else {})


def _columns(cursor: Cursor) -> list[tuple[str, str]]:
    """`name type, …)`, each type as it is written."""
    found: list[tuple[str, str]] = []
    while True:
        if cursor.accept("WATERMARK", "FOR"):
            cursor.refuse("the WATERMARK clause", "Leave it out: rows have the time of their commit.")
        name = cursor.name("the name of a column")
        found.append((name, cursor.type_name()))
        if not cursor.accept_symbol(","):
            cursor.expect_symbol(")")
            return found
