"""Looking: SHOW, DESCRIBE, EXPLAIN."""

from __future__ import annotations

from typing import get_args

from penstock.sql.cursor import Cursor
from penstock.sql.grammar import stream_tables
from penstock.sql.statements import Describe, Explain, Listed, Show, ShowCreate

SHOW_USAGE = (
    "SHOW STREAM TABLES [LIKE '…'], SHOW TABLES [LIKE '…'], SHOW SOURCES, SHOW HISTORY [OF name] [LIMIT n], "
    "SHOW ALERTS, SHOW DAG, SHOW SETTINGS, SHOW CONNECTORS, or SHOW CREATE {STREAM TABLE | SOURCE} name"
)


def show(cursor: Cursor) -> Show | ShowCreate:
    if cursor.accept("CREATE", "STREAM", "TABLE"):
        return ShowCreate("STREAM TABLE", cursor.name("the name of a stream table"))
    if cursor.accept("CREATE", "SOURCE"):
        return ShowCreate("SOURCE", cursor.name("the name of a source"))
    what = next((one for one in get_args(Listed) if cursor.accept(*one.split())), None)
    if what is None:
        cursor.unexpected()
    name = like = None
    limit = 100
    if what == "HISTORY":
        if cursor.accept("OF") or cursor.accept("FOR"):
            name = cursor.name("the name of a stream table")
        if cursor.accept("LIMIT"):
            limit = cursor.number("a number of lines")
    elif what in ("STREAM TABLES", "TABLES") and cursor.accept("LIKE"):
        like = cursor.text("a pattern")
    return Show(what, name, like, limit)


def describe(cursor: Cursor) -> Describe:
    if cursor.accept("STREAM", "TABLE"):
        return Describe("STREAM TABLE", cursor.name("the name of a stream table"))
    if cursor.accept("SOURCE"):
        return Describe("SOURCE", cursor.name("the name of a source"))
    cursor.accept("TABLE")
    return Describe("RELATION", cursor.dotted("the name of a table"))


def explain(cursor: Cursor) -> Explain:
    if cursor.accept("CREATE", "STREAM", "TABLE"):
        return Explain(stream_tables.create(cursor))
    cursor.expect("STREAM", "TABLE")
    return Explain(cursor.name("the name of a stream table"))
