"""The SQL a view becomes, kept as text: tests/golden/<case>.sql. PENSTOCK_GOLDEN=write writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres.views.queries import TABLES

from penstock.views import PostgresTyper, compile_view, delta, explain, full

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = {
    "filter_project": "SELECT id, k + 1 AS next FROM t WHERE n > 0 AND s IS NOT NULL",
    "join": "SELECT t.id, u.s FROM t JOIN u ON t.k = u.k WHERE u.n > 1",
    "join_of_three": "SELECT t.id, w.s, u.n FROM t JOIN w ON w.k = t.k JOIN u ON u.k = w.k",
    "union_all": "SELECT k, s FROM u UNION ALL SELECT k, s FROM w",
    "aggregate_linear": "SELECT k, count(*), sum(m), avg(n) FROM t GROUP BY k HAVING count(*) > 1",
    "aggregate_extreme": "SELECT k, max(n) FROM u GROUP BY k",
    "aggregate_global": "SELECT count(*), sum(n) FROM u",
    "aggregate_of_join": "SELECT w.s, sum(t.m) FROM t JOIN w ON w.k = t.k GROUP BY w.s",
    "cte_used_twice": (
        "WITH g AS (SELECT k, max(n) AS x FROM u GROUP BY 1) SELECT a.k, b.x FROM g a, g b WHERE a.k = b.x"
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_golden(oracle: psycopg.Connection[Any], case: str) -> None:
    relations = {found.name: found for found in TABLES}
    view = compile_view(
        case, CASES[case], resolve=lambda parts: relations[parts[-1]], typer=PostgresTyper(oracle)
    )  # fmt: skip
    every = frozenset(view.used_columns)
    text = "\n".join(
        [
            *(f"-- {line}" for line in explain(view).splitlines()),
            "\n-- Spark, what changed:",
            delta(view, every, "spark").combined_sql() + ";",
            "\n-- Spark, everything:",
            full(view, "spark").combined_sql() + ";",
            "\n-- PostgreSQL, what changed:",
            *(f"-- {name}\n{output.sql};" for name, output in delta(view, every, "postgres").outputs.items()),
            "",
        ]
    )
    file = GOLDEN / f"{case}.sql"
    if os.environ.get("PENSTOCK_GOLDEN") == "write":
        file.write_text(text)
    assert file.read_text() == text
