"""How each statement is written: a row for each, with its first words, its usage and the function that reads the rest.

The row with the longest fitting words is taken. A new statement is a value in `statements`, a function in one of these
files and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from penstock.sql.cursor import Cursor
from penstock.sql.grammar import looking, sources, stream_tables
from penstock.sql.script import pieces, place
from penstock.sql.statements import Parsed, Select, Statement


@dataclass(frozen=True)
class Grammar:
    words: str
    usage: str
    read: Callable[[Cursor], Statement]


_CREATE = (
    "STREAM TABLE [IF NOT EXISTS] name [SCHEDULE '5m' | CRON '*/5 * * * *'] [MODE AUTO | DIFFERENTIAL | FULL] "
    "[WITH (option = value, …)] AS SELECT …"
)
GRAMMARS = (
    Grammar("CREATE STREAM TABLE", f"CREATE {_CREATE}", stream_tables.create),
    Grammar("CREATE OR REPLACE STREAM TABLE", f"CREATE OR REPLACE {_CREATE}", stream_tables.create_or_replace),
    Grammar(
        "ALTER STREAM TABLE",
        "ALTER STREAM TABLE [IF EXISTS] name {SUSPEND | RESUME | [SET] SCHEDULE '5m' | [SET] CRON '…' | [SET] MODE … | "
        "[SET] CDC_MODE … | SET (option = value, …)} [, …] [AS SELECT …]",
        stream_tables.alter,
    ),
    Grammar(
        "DROP STREAM TABLE",
        "DROP STREAM TABLE [IF EXISTS] name [, …] [CASCADE | RESTRICT]",
        stream_tables.drop,
    ),
    Grammar("REFRESH STREAM TABLE", "REFRESH STREAM TABLE name [FULL]", stream_tables.refresh),
    Grammar("REFRESH ALL", "REFRESH ALL [STREAM TABLES]", stream_tables.refresh_all),
    Grammar(
        "CREATE SOURCE",
        "CREATE SOURCE [TABLE] [IF NOT EXISTS] name [(column type, …)] "
        "WITH (connector = 'postgres-cdc', hostname = '…', database = '…', 'table.name' = '…', …)",
        sources.create,
    ),
    Grammar("DROP SOURCE", "DROP SOURCE [IF EXISTS] name [CASCADE | RESTRICT] [FORCE]", sources.drop),
    Grammar(
        "DESCRIBE CONNECTOR", "DESCRIBE CONNECTOR 'postgres-cdc' [WITH (option = value, …)]", sources.describe_connector
    ),
    Grammar("SHOW", looking.SHOW_USAGE, looking.show),
    Grammar("DESCRIBE", "DESCRIBE [STREAM TABLE | TABLE | SOURCE] name", looking.describe),
    Grammar("EXPLAIN", "EXPLAIN STREAM TABLE name, or EXPLAIN CREATE STREAM TABLE … AS SELECT …", looking.explain),
)


def parse(text: str) -> list[Parsed]:
    """All statements of a text. Nothing is returned unless all of them are well written."""
    return list(_parsed(text))


def _parsed(text: str) -> Iterator[Parsed]:
    for piece in pieces(text):
        if piece.is_query:
            statement: Statement = Select(text[piece.start : piece.end])
        else:
            statement = _statement(Cursor(piece))
        yield Parsed(statement, *place(text, piece.start))


def _statement(cursor: Cursor) -> Statement:
    longest_first = sorted(GRAMMARS, key=lambda one: -len(one.words))
    grammar = next((one for one in longest_first if cursor.accept(*one.words.split())), None)
    if grammar is None:
        _unknown(cursor)
    cursor.usage = grammar.usage
    statement = grammar.read(cursor)
    cursor.end()
    return statement


def _unknown(cursor: Cursor) -> NoReturn:
    """Name the first word that fits no statement, and what could stand there."""
    first = {grammar: grammar.words.split() for grammar in GRAMMARS}
    fitting = {grammar: cursor.begins(*words) for grammar, words in first.items()}
    most = max(fitting.values())
    cursor.skip(most)
    near = [grammar for grammar in GRAMMARS if fitting[grammar] == most]
    cursor.usage = near[0].usage if len(near) == 1 else "; ".join(f"{grammar.words} …" for grammar in near)
    for grammar in near:
        cursor.accept(*first[grammar][most:])
    cursor.unexpected()
