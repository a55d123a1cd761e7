"""`penstock sql`: a SELECT over tables and stream tables, answered by Spark; other statements go to the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, table
from penstock.errors import InvalidQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from sqlglot import exp

    from penstock.session import Session

Dialect = Literal["postgres", "spark"]


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)


def sql(
    statement: Annotated[str, typer.Argument(help="A SELECT; tables are named as in `penstock status`.")],
    limit: Annotated[int, typer.Option(min=1, help="Print at most so many rows.")] = 50,
    dialect: Annotated[Dialect, typer.Option(help="The dialect the statement is written in.")] = "postgres",
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Run a query over captured tables and stream tables and print the rows.

    Example: penstock sql "SELECT city, revenue FROM revenue_by_city ORDER BY revenue DESC"
    """
    query = parse(statement, dialect)
    with opened(home, catalog) as session:
        if not is_select(query):
            session.execute(statement)
            out().print("Done.")
            return
        answer = select(session, query)
        rows = answer.limit(limit + 1).collect()
    out().print(table(None, answer.columns, rows[:limit]))
    if len(rows) > limit:
        out().print(f"[dim]… more rows; --limit shows more than {limit}.[/]")


def select(session: Session, query: exp.Expression) -> DataFrame:
    """The answer as a data frame: every relation is read at the frontier it has reached."""
    from pyspark.errors import PySparkException

    frames = {name: session.table(name) for name in relations(query)}
    aliases = {name: f"penstock_sql_{number}" for number, name in enumerate(frames)}
    for name, frame in frames.items():
        frame.createOrReplaceTempView(aliases[name])
    try:
        spark = next(iter(frames.values())).sparkSession if frames else session.spark
        return spark.sql(renamed(query, aliases).sql(dialect="spark"))
    except PySparkException as error:
        raise InvalidQuery(
            str(error).splitlines()[0], hint="Check names and types; --dialect spark takes Spark's own SQL."
        ) from error


def parse(statement: str, dialect: Dialect) -> exp.Expression:
    """The one statement in `statement`; penstock's own statements come back as what they are, unread."""
    import sqlglot
    from sqlglot import exp

    if statement.strip().upper().startswith(_OUR_VERBS):
        return exp.Command(this=statement)
    try:
        found = [tree for tree in sqlglot.parse(statement, dialect=dialect) if tree is not None]
    except sqlglot.errors.SqlglotError as error:
        first = str(error).splitlines()[0]
        raise InvalidQuery(f"this is not {dialect} SQL: {first}", hint="Put the statement in quotes.") from error
    if len(found) != 1:
        raise InvalidQuery(f"expected one statement, found {len(found)}", hint="Run them one by one.")
    return found[0]


_OUR_VERBS = ("CREATE", "ALTER", "DROP", "REFRESH", "SHOW", "EXPLAIN")


def is_select(query: exp.Expression) -> bool:
    """
    >>> [is_select(parse(text, "postgres")) for text in ("WITH a AS (SELECT 1) SELECT * FROM a", "VALUES (1)")]
    [True, True]
    >>> is_select(parse("CREATE STREAM TABLE v AS SELECT 1", "postgres"))
    False
    """
    from sqlglot import exp

    return isinstance(query, exp.Query | exp.Values)


def relations(query: exp.Expression) -> list[str]:
    """Every table a query reads, as written; names that a WITH gives are not tables.

    >>> relations(parse("WITH o AS (SELECT * FROM public.orders) SELECT * FROM o, shop.public.lines", "postgres"))
    ['public.orders', 'shop.public.lines']
    """
    return sorted({_name(table) for table in _tables(query)})


def renamed(query: exp.Expression, names: Mapping[str, str]) -> exp.Expression:
    """The query with its tables replaced; each keeps the name its columns are qualified with.

    >>> renamed(parse("SELECT orders.id FROM public.orders", "postgres"), {"public.orders": "t0"}).sql()
    'SELECT orders.id FROM t0 AS orders'
    """
    from sqlglot import exp

    query = query.copy()
    for found in _tables(query):
        alias = found.alias or found.name
        new = exp.to_table(names[_name(found)])
        found.set("this", new.this)
        found.set("db", None)
        found.set("catalog", None)
        found.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return query


def _tables(query: exp.Expression) -> list[exp.Table]:
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    if not isinstance(query, exp.Query):
        return []
    return [
        source
        for scope in traverse_scope(query)
        for source in scope.sources.values()
        if isinstance(source, exp.Table) and not isinstance(source.this, exp.Func)
    ]


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)
