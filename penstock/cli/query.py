"""`penstock sql`: statements for `Session.execute`, each answer as a table or as JSON."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import cell, out, print_json, table
from penstock.cli.verify import shown_progress
from penstock.errors import InvalidQuery
from penstock.text_file import read_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.sql.answer import Answer


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="Statements, with ; between them. Tables are named as in `penstock dag`.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="Read the statements from a file; - is the input."),
    ] = None,
    at: Annotated[str | None, typer.Option(help="SELECT: a time with its zone, an LSN, or a frontier as JSON.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="SELECT: print at most so many rows.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print each answer as a line of JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Run SQL: a SELECT over captured tables and stream tables, all at one frontier, or a statement of docs/sql.md.

    CREATE, ALTER, DROP, REFRESH, DESCRIBE and EXPLAIN STREAM TABLE; CREATE and DROP SOURCE; SHOW STREAM TABLES,
    SOURCES, HISTORY and more. Nothing is run unless all statements are well written.

    Example: penstock sql "SELECT city, revenue FROM revenue_by_city ORDER BY revenue DESC"

    Example: penstock sql "CREATE STREAM TABLE big SCHEDULE '1m' AS SELECT id, total FROM orders WHERE total > 1000"
    """
    text = _text(statement, file)
    with opened(home, catalog) as session, closing(_Copying()) as copying:
        found = False
        for answer in session.execute_each(text, at=at, progress=copying):
            found = True
            copying.close()
            columns, rows, message, properties = _read(answer, limit + 1)
            if as_json:
                _print_json(columns, rows[:limit], message, properties)
            else:
                _print(columns, rows, message, properties, limit)
    if not found:
        raise InvalidQuery("there is no statement", hint="Write one, such as SHOW STREAM TABLES.")


def _text(statement: str | None, file: str | None) -> str:
    if (statement is None) == (file is None):
        raise typer.BadParameter("give a statement, or a file with --file")
    if statement is not None:
        return statement
    return sys.stdin.read() if file == "-" else read_text(str(file))


class _Copying:
    """What a CREATE SOURCE has copied, shown from its first rows on."""

    def __init__(self) -> None:
        self._shown = ExitStack()
        self._tell: Callable[[str, int], None] | None = None
        self._lock = threading.Lock()  # several tables are copied at once

    def __call__(self, table: str, rows: int) -> None:
        with self._lock:
            if self._tell is None:
                self._tell = self._shown.enter_context(shown_progress("Copying", "rows copied"))
        self._tell(table, rows)

    def close(self) -> None:
        self._shown.close()
        self._tell = None


_Read = tuple[tuple[str, ...], list[tuple[Any, ...]], str, dict[str, Any]]


def _read(answer: DataFrame | Answer, limit: int) -> _Read:
    from penstock.sql.answer import Answer

    if isinstance(answer, Answer):
        return answer.columns, list(answer.rows), answer.message, dict(answer.properties)
    return _collected(answer, limit)


def _collected(answer: DataFrame, limit: int) -> _Read:
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    # Spark prints a JSON line about every query it refuses; the error says it already.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    try:
        return tuple(answer.columns), [tuple(row) for row in answer.limit(limit).collect()], "", {}
    except PySparkException as error:
        raise InvalidQuery(
            str(error).splitlines()[0], hint="The query was understood, but cannot be computed on these rows."
        ) from error


def _print(
    columns: tuple[str, ...], rows: list[tuple[Any, ...]], message: str, more: dict[str, Any], limit: int
) -> None:
    console = out()
    if columns in (("plan",), ("dag",), ("statement",)):
        print("\n".join(str(row[0]) for row in rows))
    elif columns:
        console.print(table(None, columns, rows if more else rows[:limit]))
        if len(rows) > limit and not more:
            console.print(f"[dim]… and more; --limit shows more than {limit} rows.[/]")
    if more:
        console.print()
    for name, value in more.items():
        console.print(f"[dim]{escape(name)}:[/] {escape(cell(value))}", soft_wrap=True)
    if message:
        console.print(escape(message), soft_wrap=True)


def _print_json(columns: tuple[str, ...], rows: list[tuple[Any, ...]], message: str, more: dict[str, Any]) -> None:
    said: dict[str, Any] = {"rows": [dict(zip(columns, row, strict=True)) for row in rows]} if columns else {}
    print_json(
        {**said, **({"properties": more} if more else {}), **({"message": message} if message else {})}, line=True
    )
