"""Spark is told to broadcast a change where that is safe: not one known to be large."""

from __future__ import annotations

from typing import Any

import psycopg
from postgres.views.queries import TABLES

from penstock.views import PostgresTyper, View, compile_view, delta


def joined(oracle: psycopg.Connection[Any]) -> View:
    relations = {found.name: found for found in TABLES}
    sql = "SELECT w.s, count(*) FROM t JOIN w ON w.k = t.k JOIN u ON u.k = t.k GROUP BY w.s"
    return compile_view("v", sql, resolve=lambda parts: relations[parts[-1]], typer=PostgresTyper(oracle))


def test_a_small_change_is_broadcast_at_every_step_that_cannot_grow(oracle: psycopg.Connection[Any]) -> None:
    sql = delta(joined(oracle), frozenset({"t"}), changes={"t": 1000}).combined_sql()
    assert sql.count("BROADCAST") == 3  # Δt to w by its key, the result to u, the changed groups to the state


def test_a_large_change_is_not(oracle: psycopg.Connection[Any]) -> None:
    assert "BROADCAST" not in delta(joined(oracle), frozenset({"t"}), changes={"t": 10**7}).combined_sql()


def test_what_did_not_change_is_not_read_twice(oracle: psycopg.Connection[Any]) -> None:
    program = delta(joined(oracle), frozenset({"t"}))
    assert {(read.kind, read.relation) for read in program.reads} == {
        ("delta", "t"), ("after", "w"), ("after", "u"), ("state", "agg0"),
    }  # fmt: skip


def test_nothing_changed_selects_nothing(oracle: psycopg.Connection[Any]) -> None:
    program = delta(joined(oracle), frozenset(), "postgres")
    assert not program.reads
    assert all(oracle.execute(output.sql).fetchall() == [] for output in program.outputs.values())
