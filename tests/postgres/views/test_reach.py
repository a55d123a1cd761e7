"""A delta over the rows that `reach` lists alone gives what it gives over all rows, and what PostgreSQL computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres.views.grammar import Grammar
from postgres.views.maintained import Inputs, Maintained, Row, relation
from postgres.views.queries import TABLES, TEMPLATES
from postgres.views.test_rules import follow

from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views import First, Match, Program, Reach, Read, Relation, compile_view, delta, placeholder
from penstock.views.expr import FLOAT8, INT4, INT8
from penstock.views.oracle import differing_rows
from penstock.views.typer import PostgresTyper


class Reached(Maintained):
    """Maintained from the reached rows alone; `read` and `dropped` count the rows of states that were and were not."""

    read = dropped = 0

    def refresh(self, changed: frozenset[str], sizes: Mapping[str, int] | None = None) -> None:
        program = delta(self.view, changed, "postgres", sizes)
        renamed = self._reached(program)
        found = {}
        for name, output in program.outputs.items():
            sql = output.sql
            for old, new in renamed.items():
                sql = sql.replace(old, new)
            found[name] = self.connection.execute(sql).fetchall()
            self._same_change(name, self.connection.execute(output.sql).fetchall(), found[name])
        self.store(found)

    def _same_change(self, name: str, everything: Sequence[Row], some: Sequence[Row]) -> None:
        for whole, part in zip(_in_and_out(everything), _in_and_out(some), strict=True):
            differing = differing_rows(whole, part, self.columns[name], self.approximate[name])
            assert not any(differing), f"{name} of {self.sql}: {differing}"

    def _reached(self, program: Program) -> dict[str, str]:
        """The reached rows as tables, made in the order given: a match may be by a table made before."""
        made: dict[str, str] = {}
        for place, one in enumerate(program.reach):
            whole, table = placeholder(one.read), f"reached_{place}"
            where = " OR ".join(_exists(match, made) for match in one.matches) or "false"
            where = " OR ".join([where, *(_first(first, self._netted(whole, place), where) for first in one.first)])
            self.connection.execute(f"DROP TABLE IF EXISTS {table}")
            count = self.connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM {whole} s WHERE {where}")
            total = self.connection.execute(f"SELECT count(*) FROM {whole}").fetchall()[0][0]
            Reached.read += count.rowcount
            Reached.dropped += total - count.rowcount
            made[whole] = table
        return made

    def _netted(self, whole: str, place: int) -> str:
        columns = ", ".join(
            f'"{col.name}"' for col in self.connection.execute(f"SELECT * FROM {whole}").description or ()
        )
        columns = columns.replace(', "_weight"', "")
        self.connection.execute(f"DROP TABLE IF EXISTS netted_{place}")
        self.connection.execute(
            f"CREATE TEMP TABLE netted_{place} AS "
            f"SELECT {columns} FROM {whole} GROUP BY {columns} HAVING sum(_weight) <> 0"
        )
        return f"netted_{place}"


def _first(first: First, netted: str, touched: str) -> str:
    """Those up to the last of the first ones; all if there are not so many; and those without a value."""
    value = f's."{first.column}"'
    if first.counted:
        value = f'CASE WHEN s."{first.counted}" > 0 THEN {value} END'
    order, sign = ("DESC", ">=") if first.descending else ("ASC", "<=")
    last = (
        f"SELECT {value} FROM {netted} s WHERE {value} IS NOT NULL ORDER BY 1 {order} "
        f"OFFSET greatest(0, {first.count} + (SELECT count(*) FROM {netted} s WHERE {touched}) - 1) LIMIT 1"
    )
    return f"{value} IS NULL OR coalesce({value} {sign} ({last}), true)"


def _exists(match: Match, made: Mapping[str, str]) -> str:
    sign = "IS NOT DISTINCT FROM" if match.nulls else "="
    by = made.get(placeholder(match.by), placeholder(match.by))
    on = " AND ".join(f's."{a}" {sign} b."{b}"' for a, b in zip(match.columns, match.by_columns, strict=True))
    return f"EXISTS (SELECT FROM {by} b WHERE {on})"


def _in_and_out(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that a change puts in and those it takes out, after what cancels."""
    total: dict[str, list[Any]] = {}
    for row in rows:
        total.setdefault(repr(row[:-1]), [row[:-1], 0])[1] += int(row[-1])
    put = [row for row, weight in total.values() for _ in range(weight)]
    return put, [row for row, weight in total.values() for _ in range(-weight)]


@pytest.mark.parametrize("sql", TEMPLATES)
def test_templates(inputs: Inputs, sql: str) -> None:
    """Each delta whole, over the reached rows alone, and against PostgreSQL."""
    follow(Reached(inputs, sql), Random(sql), rounds=3)


@pytest.mark.parametrize("examples", [40, pytest.param(400, marks=pytest.mark.matrix)])
def test_random_queries(inputs: Inputs, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 10**9))
    def follows(seed: int) -> None:
        random = Random(seed)
        follow(Reached(inputs, Grammar(random, ()).query(2)), random, rounds=3)

    follows()


def test_rows_were_left_out(inputs: Inputs) -> None:
    """What the tests above compare is not the same twice."""
    before = Reached.dropped
    for sql in TEMPLATES[2:5]:
        follow(Reached(inputs, sql), Random(1), rounds=3)
    assert Reached.dropped > before + 20


# What is reached ------------------------------------------------------------------------------------------------------

LONG = PgType(1042, 14, "character(10)")
ODD, EVEN = (
    relation(name, Column.of("f", FLOAT8), Column.of("c", LONG), Column.of("n", INT8), Column.of("k", INT4))
    for name in ("odd", "even")
)
DELTA_T, DELTA_U, DELTA_W = (Read("delta", name) for name in "tuw")


def reach_of(oracle: psycopg.Connection[Any], sql: str, *changed: str, sizes: Mapping[str, int]) -> list[Reach]:
    relations: dict[str, Relation] = {found.name: found for found in (*TABLES, ODD, EVEN)}
    view = compile_view("v", sql, resolve=lambda parts: relations[parts[-1]], typer=PostgresTyper(oracle))
    return list(delta(view, frozenset(changed), sizes=sizes).reach)


@pytest.mark.parametrize(
    ("sql", "changed", "expected"),
    [
        ("SELECT w.s, sum(t.m) FROM t JOIN w ON w.k = t.k GROUP BY w.s", "tw", [
            Reach(Read("after", "t"), (Match(("k",), DELTA_W, ("k",)),)),
            Reach(Read("before", "w"), (Match(("k",), DELTA_T, ("k",)),)),
        ]),
        ("SELECT x.n FROM (SELECT k AS key, n FROM t WHERE n > 0) x JOIN w ON w.k = x.key AND w.s <> 'a'", "w", [
            Reach(Read("after", "t"), (Match(("k",), DELTA_W, ("k",)),)),
        ]),
        ("SELECT t.id FROM t JOIN w ON w.k = t.k AND w.s = t.s", "w", [
            Reach(Read("after", "t"), (Match(("k", "s"), DELTA_W, ("k", "s")),)),
        ]),
        # By a row that is itself reached: u by the rows of t that Δw reaches.
        ("SELECT t.id FROM w JOIN t ON w.k = t.k JOIN u ON u.s = t.s", "w", [
            Reach(Read("after", "t"), (Match(("k",), DELTA_W, ("k",)),)),
            Reach(Read("after", "u"), (Match(("s",), Read("after", "t"), ("s",)),)),
        ]),
        ("SELECT k, max(n) FROM u GROUP BY k", "u", [
            Reach(Read("state", "agg0"), (Match(("g0",), DELTA_U, ("k",), nulls=True),)),
            Reach(Read("after", "u"), (Match(("k",), DELTA_U, ("k",), nulls=True),)),
        ]),
        ("SELECT t.id FROM t JOIN u ON t.k IS NOT DISTINCT FROM u.k", "u", [
            Reach(Read("after", "t"), (Match(("k",), DELTA_U, ("k",), nulls=True),)),
        ]),
    ],
)  # fmt: skip
def test_what_is_reached(oracle: psycopg.Connection[Any], sql: str, changed: str, expected: list[Reach]) -> None:
    found = reach_of(oracle, sql, *changed, sizes={"t": 9, "u": 5, "w": 2})
    assert {one.read: one for one in found if one.read.kind != "state" or one in expected} == {
        one.read: one for one in expected
    }


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.id FROM t JOIN w ON w.k = t.k + 1",  # an expression
        "SELECT t.id FROM t JOIN w ON w.k < t.k",  # an order
        "SELECT t.id FROM t JOIN w ON w.k = t.k OR w.s = t.s",  # a choice
        "SELECT t.id FROM t CROSS JOIN w",
        "SELECT t.id FROM t JOIN (SELECT k + 1 AS k FROM w) x ON x.k = t.k",
        "SELECT t.id FROM t JOIN (SELECT sum(k) AS k FROM w) x ON x.k = t.n",  # a measure
        "SELECT count(*) FROM t, w WHERE t.id > 5",
    ],
)
def test_what_is_needed_whole(oracle: psycopg.Connection[Any], sql: str) -> None:
    found = reach_of(oracle, sql, "w", sizes={"t": 9, "w": 2})
    assert Read("after", "t") not in {one.read for one in found}


@pytest.mark.parametrize("on", ["a.f = b.f", "a.c = b.c", "a.n = b.k"])
def test_types_that_compare_differently_are_not_followed(oracle: psycopg.Connection[Any], on: str) -> None:
    assert not reach_of(oracle, f"SELECT a.k FROM odd a JOIN even b ON {on}", "even", sizes={"odd": 9, "even": 2})


def test_one_use_that_needs_all_rows_is_enough(oracle: psycopg.Connection[Any]) -> None:
    sql = "SELECT t.id FROM t JOIN w ON w.k = t.k UNION ALL SELECT t.id FROM t JOIN w ON w.k > t.k"
    assert reach_of(oracle, sql, "w", sizes={"t": 9, "w": 2}) == []


def test_a_state_tied_only_to_itself_is_needed_whole(oracle: psycopg.Connection[Any]) -> None:
    sql = "SELECT w.k FROM w CROSS JOIN (SELECT a.k FROM u a JOIN u b ON a.k = b.k) x"
    assert reach_of(oracle, sql, "w", sizes={"u": 9, "w": 2}) == []


def test_of_numbered_groups_the_first_ones(oracle: psycopg.Connection[Any]) -> None:
    sql = "SELECT k, sum(n) AS x FROM u GROUP BY k ORDER BY x DESC, k LIMIT 2 OFFSET 1"
    (found,) = reach_of(oracle, sql, "u", sizes={"u": 9})
    assert found.first == (First(3, "sum0", True, "nonnull0"),)
    assert found.matches == (Match(("g0",), DELTA_U, ("k",), nulls=True),)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM (SELECT k, count(*), row_number() OVER (ORDER BY k) AS r, sum(k) OVER () FROM u GROUP BY k) x "
        "WHERE r < 3",
        "SELECT * FROM (SELECT k, row_number() OVER (ORDER BY k) AS r, rank() OVER (ORDER BY count(*)) AS s FROM u "
        "GROUP BY k) x WHERE r < 3",
        "SELECT * FROM (SELECT k, dense_rank() OVER (ORDER BY k) AS r FROM u GROUP BY k) x WHERE r < 3",
        "SELECT * FROM (SELECT k, row_number() OVER (ORDER BY k) AS r FROM u GROUP BY k) x WHERE r > 3",
        "SELECT k, avg(n) AS x FROM u GROUP BY k ORDER BY x LIMIT 2",
    ],
)
def test_what_is_numbered_whole(oracle: psycopg.Connection[Any], sql: str) -> None:
    assert not [one for one in reach_of(oracle, sql, "u", sizes={"u": 9}) if one.read.kind == "state"]


def test_by_one_column_where_several_lead_back_to_itself(oracle: psycopg.Connection[Any]) -> None:
    """By k and n, t is tied to rows of t; by k alone, to the change."""
    sql = "SELECT id FROM t WHERE NOT EXISTS (SELECT FROM t x WHERE x.k = t.k AND x.n <> t.n)"
    found = {one.read: {match.by for match in one.matches} for one in reach_of(oracle, sql, "t", sizes={"t": 9})}
    assert found[Read("before", "t")] == found[Read("after", "t")] == {DELTA_T}


@pytest.mark.parametrize(("growing", "rescans"), [(frozenset({"u", "w"}), False), (frozenset({"u"}), True)])
def test_extremes_of_what_only_grows_need_no_rescan(
    oracle: psycopg.Connection[Any], growing: frozenset[str], rescans: bool
) -> None:
    sql = "SELECT w.s, max(u.n), count(*) FROM u JOIN w ON w.k = u.k GROUP BY w.s"
    relations = {found.name: found for found in TABLES}
    view = compile_view("v", sql, resolve=lambda parts: relations[parts[-1]], typer=PostgresTyper(oracle))
    program = delta(view, frozenset({"u", "w"}), growing=growing)
    assert {Read("after", "u"), Read("after", "w")}.issubset(program.reads) == rescans
