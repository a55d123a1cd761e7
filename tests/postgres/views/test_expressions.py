"""Every expression, as the Postgres renderer writes it, gives what PostgreSQL makes of it as it was written."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from postgres.views.expressions import EDGE, EXPRESSIONS, ROWS

from penstock.views import PostgresTyper, Read, compile_view, full, placeholder
from penstock.views.approximate import approximate
from penstock.views.oracle import differing_rows
from penstock.views.typer import type_name


@pytest.fixture(scope="module")
def edges(oracle: psycopg.Connection[Any]) -> None:
    make_edges(oracle)


def make_edges(oracle: psycopg.Connection[Any]) -> None:
    columns = ", ".join(f"{c.name} {type_name(c.pg)}" for c in EDGE.schema.columns)
    oracle.execute(f"DROP TABLE IF EXISTS edge CASCADE; CREATE TEMP TABLE edge ({columns})")
    oracle.execute(f"CREATE TEMP VIEW {placeholder(Read('rows', 'edge'))} AS SELECT * FROM edge")
    marks = ", ".join(["%s"] * len(EDGE.schema.columns))
    with oracle.cursor() as cursor:
        cursor.executemany(f"INSERT INTO edge VALUES ({marks})", ROWS)


@pytest.mark.parametrize("family", EXPRESSIONS)
def test_expressions_mean_the_same(oracle: psycopg.Connection[Any], edges: None, family: str) -> None:
    for expression in EXPRESSIONS[family]:
        sql = f"SELECT id, {expression} AS e FROM edge"
        view = compile_view("v", sql, resolve=lambda parts: EDGE, typer=PostgresTyper(oracle))
        found = [row[:-1] for row in oracle.execute(full(view, "postgres").outputs["view"].sql)]
        expected = oracle.execute(sql).fetchall()
        missing, extra = differing_rows(expected, found, view.columns, approximate(view))
        assert not missing, f"{expression}: missing {missing}, extra {extra}"
        assert not extra, f"{expression}: extra {extra}"
