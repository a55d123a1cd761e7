"""`penstock sql`: a statement for `Session.execute`, its answer as a table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, table
from penstock.errors import InvalidQuery

if TYPE_CHECKING:
    from penstock.session import Session


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)


def sql(
    statement: Annotated[str, typer.Argument(help="A SELECT in Spark SQL; tables are named as in `penstock dag`.")],
    at: Annotated[str | None, typer.Option(help="A time with its zone, an LSN, or a frontier as JSON.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many rows.")] = 50,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Run a query over captured tables and stream tables, all at one frontier, and print the rows.

    Example: penstock sql "SELECT city, revenue FROM revenue_by_city ORDER BY revenue DESC"
    """
    with opened(home, catalog) as session:
        columns, rows = _answer(session, statement, at, limit + 1)
    out().print(table(None, columns, rows[:limit]))
    if len(rows) > limit:
        out().print(f"[dim]… and more; --limit shows more than {limit} rows.[/]")


def _answer(session: Session, statement: str, at: str | None, limit: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    # Spark prints a JSON line about every query it refuses; the error says it already.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    answer = session.execute(statement, at=at)
    try:
        return answer.columns, [tuple(row) for row in answer.limit(limit).collect()]
    except PySparkException as error:
        raise InvalidQuery(
            str(error).splitlines()[0], hint="The query was understood, but cannot be computed on these rows."
        ) from error
