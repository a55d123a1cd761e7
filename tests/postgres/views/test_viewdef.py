"""What PostgreSQL gives back as a view's definition means what was written: every expression and query, printed."""

from __future__ import annotations

from random import Random
from typing import Any

import psycopg
import pytest
from postgres.views.expressions import EDGE, EXPRESSIONS
from postgres.views.maintained import Inputs, Maintained
from postgres.views.queries import TEMPLATES
from postgres.views.test_expressions import make_edges
from postgres.views.workload import Workload

from penstock.views import PostgresTyper, compile_view, full
from penstock.views.approximate import approximate
from penstock.views.oracle import differing_rows


def printed(connection: psycopg.Connection[Any], sql: str) -> str:
    connection.execute("DROP VIEW IF EXISTS printed")
    connection.execute(f"CREATE TEMP VIEW printed AS {sql}".encode())
    row = connection.execute("SELECT pg_get_viewdef('printed'::regclass)").fetchone()
    assert row is not None
    return str(row[0]).rstrip(";")


@pytest.fixture(scope="module")
def edges(oracle: psycopg.Connection[Any]) -> None:
    make_edges(oracle)


@pytest.mark.parametrize("family", EXPRESSIONS)
def test_expressions(oracle: psycopg.Connection[Any], edges: None, family: str) -> None:
    items = ", ".join(f"{expression} AS e{number}" for number, expression in enumerate(EXPRESSIONS[family]))
    sql = f"SELECT id, {items} FROM edge"
    view = compile_view("v", printed(oracle, sql), resolve=lambda _: EDGE, typer=PostgresTyper(oracle))
    found = [row[:-1] for row in oracle.execute(full(view, "postgres").outputs["view"].sql)]
    differing = differing_rows(oracle.execute(sql).fetchall(), found, view.columns, approximate(view))
    assert differing == ([], [])


def test_queries(inputs: Inputs) -> None:
    inputs.clear()
    workload = Workload(inputs, Random(1))
    workload.round(24)
    views = [Maintained(inputs, printed(inputs.connection, sql)) for sql in TEMPLATES if _may_be_a_view(sql)]
    assert len(views) > 150
    for maintained in views:
        maintained.start()
        maintained.check()


def _may_be_a_view(sql: str) -> bool:
    """A view names each column once, and no row is chosen from among equals."""
    return "LIMIT" not in sql


def test_older_words(oracle: psycopg.Connection[Any], edges: None) -> None:
    """As servers before 14 print extract, and functions that are named like words of the grammar."""
    sql = """
    SELECT date_part('year'::text, d) AS y, "substring"(s, 1, 2) AS a, "left"(s, 1) AS b, "position"(s, 'b'::text) AS c,
           date_trunc('month'::text, ts) AS m, btrim(s, ' '::text) AS t, (i)::numeric * 0.5 AS n FROM edge"""
    view = compile_view("v", sql, resolve=lambda _: EDGE, typer=PostgresTyper(oracle))
    found = [row[:-1] for row in oracle.execute(full(view, "postgres").outputs["view"].sql)]
    expected = oracle.execute(sql.replace("date_part('year'::text, d)", "extract(year FROM d)"))
    assert sorted(map(str, found)) == sorted(map(str, expected))
