"""The terms of a join as one join give what they give one by one, and what PostgreSQL computes."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import psycopg
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres.views.expressions import EDGE, EXPRESSIONS
from postgres.views.grammar import Grammar
from postgres.views.maintained import Inputs, Maintained
from postgres.views.queries import TABLES, TEMPLATES
from postgres.views.test_rules import follow
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from penstock.relation.schema import Column, Schema
from penstock.views import PostgresTyper, Program, Read, Relation, compile_view, delta, placeholder
from penstock.views.expr import INT4


class AsOneJoin(Maintained):
    """Maintained by the program for reads in memory; `joins` counts the tables that were put together."""

    joins = 0

    def refresh(self, changed: frozenset[str], sizes: Mapping[str, int] | None = None) -> None:
        program = delta(self.view, changed, "postgres", sizes, growing=self.inputs.growing & changed).in_memory()
        for read in program.reads:
            if read.forms:
                AsOneJoin.joins += 1
                self._put_together(read)
        self.store({name: self.connection.execute(out.sql).fetchall() for name, out in program.outputs.items()})

    def _put_together(self, read: Read) -> None:
        parts = [
            f"SELECT *, {place} AS _term FROM {placeholder(Read(form, read.relation))}"
            for place, form in enumerate(read.forms)
        ]
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {placeholder(read)} AS {' UNION ALL '.join(parts)}")


@pytest.mark.parametrize("sql", [sql for sql in TEMPLATES if "JOIN" in sql or "," in sql.partition("FROM")[2]])
def test_templates(inputs: Inputs, sql: str) -> None:
    follow(AsOneJoin(inputs, sql), Random(5), rounds=3)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**9))
def test_random_queries(inputs: Inputs, seed: int) -> None:
    random = Random(seed)
    follow(AsOneJoin(inputs, Grammar(random, ()).query(2)), random, rounds=3)


def test_joins_were_put_together(inputs: Inputs) -> None:
    """What the tests above compare is not the same twice."""
    before = AsOneJoin.joins
    follow(AsOneJoin(inputs, "SELECT w.s, sum(t.m) FROM t JOIN w ON w.k = t.k GROUP BY w.s"), Random(1), rounds=6)
    assert AsOneJoin.joins > before


@pytest.mark.parametrize("sql", [
    "SELECT count(*) FROM u a CROSS JOIN u b",
    "SELECT t.id FROM t CROSS JOIN u CROSS JOIN w",
    "SELECT u.n, (SELECT count(*) FROM u a CROSS JOIN w b CROSS JOIN u c) AS c FROM u",
])  # fmt: skip
@pytest.mark.parametrize("changed", [{"u"}, {"u", "w"}, {"t", "u", "w"}])
def test_tables_that_are_only_counted(inputs: Inputs, sql: str, changed: set[str]) -> None:
    """Two that give no columns are two. With one changed row each, a wrong sum may be right."""
    inputs.clear()
    inputs.apply({"t": [((1, 1, 1, "1.50", "a", 0.5), 1)], "u": [((1, 1, "a"), 1)], "w": [((1, "a"), 1)]})
    view = AsOneJoin(inputs, sql)
    view.start()
    rows: dict[str, list[Any]] = {
        "t": [((2, 1, 1, "1.50", "a", 0.5), 1), ((3, 1, 1, "1.50", "a", 0.5), 1)],
        "u": [((1, 1, "b"), 1), ((1, 1, "c"), 1), ((1, 2, None), 1)],
        "w": [((2, "a"), 1), ((3, "b"), 1)],
    }
    inputs.apply({name: rows[name] for name in changed})
    view.refresh(frozenset(changed) & set(view.view.used_columns))
    view.check()


@pytest.mark.parametrize("family", EXPRESSIONS)
def test_every_column_is_one_of_its_tables(oracle: psycopg.Connection[Any], family: str) -> None:
    """Also behind joins that are nested, wherever an expression names a column more than once."""
    items = ", ".join(f"{expression} AS e{number}" for number, expression in enumerate(EXPRESSIONS[family]))
    sql = (
        f"SELECT {items} FROM {EDGE.name} JOIN (SELECT k AS uk FROM u) x ON x.uk = {EDGE.name}.id"
        " JOIN (SELECT k AS wk FROM w) y ON y.wk = x.uk"
    )
    found = program(oracle, sql, EDGE.name, "u", "w", more=(EDGE,)).combined_sql()
    assert "COALESCE(1)" in found
    unknown = [
        column.sql()
        for scope in traverse_scope(sqlglot.parse_one(found, dialect="spark"))
        for column in scope.columns
        if column.table and column.table not in scope.sources and column.find_ancestor(exp.Lambda) is None
    ]
    assert not unknown


# What is put together -------------------------------------------------------------------------------------------------


def program(oracle: psycopg.Connection[Any], sql: str, *changed: str, more: tuple[Relation, ...] = ()) -> Program:
    relations = {found.name: found for found in (*TABLES, *more)}
    view = compile_view("v", sql, resolve=lambda parts: relations[parts[-1]], typer=PostgresTyper(oracle))
    return delta(view, frozenset(changed), sizes={"t": 9, "u": 5, "w": 2}).in_memory()


def reads(found: Program) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(read.kind, read.relation, read.forms) for read in found.reads}


def test_one_table_an_input(oracle: psycopg.Connection[Any]) -> None:
    found = program(oracle, "SELECT t.id, w.s FROM t JOIN w ON w.k = t.k WHERE t.n > 0", "t", "w")
    assert reads(found) == {("terms", "t", ("delta", "after")), ("terms", "w", ("before", "delta"))}
    sql = found.combined_sql()
    assert sql.count("JOIN") == 1
    assert "UNION" not in sql


def test_three_inputs_of_which_two_changed(oracle: psycopg.Connection[Any]) -> None:
    found = program(oracle, "SELECT t.id FROM t JOIN w ON w.k = t.k JOIN u ON u.k = t.k", "t", "w")
    assert {kind for kind, _, _ in reads(found)} == {"terms"}
    assert ("terms", "u", ("after", "after")) in reads(found)


def test_a_table_joined_to_itself_is_two_inputs(oracle: psycopg.Connection[Any]) -> None:
    found = program(oracle, "SELECT a.id FROM t a JOIN t b ON a.k = b.k", "t")
    assert reads(found) == {("terms", "t", ("delta", "after")), ("terms", "t", ("before", "delta"))}


def test_one_changed_input_stays_as_it_is(oracle: psycopg.Connection[Any]) -> None:
    assert reads(program(oracle, "SELECT t.id FROM t JOIN w ON w.k = t.k", "t")) == {
        ("delta", "t", ()), ("after", "w", ()),
    }  # fmt: skip


def test_what_an_operator_remembers_is_joined_term_by_term(oracle: psycopg.Connection[Any]) -> None:
    sql = "SELECT t.id, x.n FROM t JOIN (SELECT k, count(*) AS n FROM u GROUP BY k) x ON x.k = t.k"
    assert all(not read.forms for read in program(oracle, sql, "t", "u").reads)


def test_a_column_of_the_same_name_keeps_the_terms_apart(oracle: psycopg.Connection[Any]) -> None:
    odd = Relation("odd", Schema((Column.of("k", INT4), Column.of("_term", INT4))))
    found = program(oracle, 'SELECT o."_term" FROM odd o JOIN w ON w.k = o.k', "odd", "w", more=(odd,))
    assert all(not read.forms for read in found.reads)
