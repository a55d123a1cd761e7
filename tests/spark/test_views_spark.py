"""Views on Spark give PostgreSQL's answers: all allowed expressions over edge values, refreshes over several rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from postgres.views.expressions import EDGE, EXPRESSIONS, MONEY, ROWS
from postgres.views.maintained import Row, floats, relation
from psycopg.types.string import TextLoader
from spark.runner import Spark, arrow, same

from penstock.embedded import EmbeddedPostgres
from penstock.relation.schema import Column
from penstock.views import PostgresTyper, Read, View, compile_view, delta, full
from penstock.views.expr import FLOAT8, INT4, INT8, TEXT
from penstock.views.oracle import differing_rows
from penstock.views.typer import type_name
from penstock.zset import WEIGHT, consolidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def oracle(source_server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE spark_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(source_server.dsn_of("spark_oracle"), autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            connection.adapters.register_loader("jsonb", TextLoader)  # letter for letter
            yield connection
        admin.execute("DROP DATABASE spark_oracle WITH (FORCE)")


@pytest.fixture(scope="module")
def edges(oracle: psycopg.Connection[Any]) -> None:
    columns = ", ".join(f"{c.name} {type_name(c.pg)}" for c in EDGE.schema.columns)
    oracle.execute(f"CREATE TABLE edge ({columns})")
    marks = ", ".join(["%s"] * len(EDGE.schema.columns))
    with oracle.cursor() as cursor:
        cursor.executemany(f"INSERT INTO edge VALUES ({marks})", ROWS)


@pytest.mark.parametrize("family", EXPRESSIONS)
def test_expressions_give_postgres_values(
    spark: SparkSession, oracle: psycopg.Connection[Any], edges: None, family: str
) -> None:
    runner = Spark(spark)
    runner.bind(Read("rows", "edge"), arrow(EDGE, ROWS))
    items = ", ".join(f"{expression} AS e{n}" for n, expression in enumerate(EXPRESSIONS[family]))
    sql = f"SELECT id, {items} FROM edge"
    view = compile_view("v", sql, resolve=lambda parts: EDGE, typer=PostgresTyper(oracle))
    output = full(view).outputs["view"]
    table = spark.sql(output.sql).toArrow()
    assert {n: str(t) for n, t in zip(table.schema.names, table.schema.types, strict=True) if n != WEIGHT} == {
        c.name: str(c.arrow) for c in view.columns
    }
    found = [tuple(row.values())[:-1] for row in table.to_pylist()]
    same(found, oracle.execute(sql).fetchall(), view)


# Rules ----------------------------------------------------------------------------------------------------------------

ORDERS = relation(
    "orders",
    Column.of("id", INT4, nullable=False),
    Column.of("customer", INT4),
    Column.of("amount", MONEY),
    Column.of("qty", INT8),
    Column.of("weight", FLOAT8),
    Column.of("note", TEXT),
    key=["id"],
)
CUSTOMERS = relation(
    "customers", Column.of("id", INT4, nullable=False), Column.of("region", TEXT), key=["id"]
)  # fmt: skip

QUERIES = [
    "SELECT id, amount * 2 AS double FROM orders WHERE qty > 1",
    "SELECT o.id, c.region FROM orders o JOIN customers c ON c.id = o.customer",
    "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id",
    "SELECT count(*), sum(amount), avg(amount), avg(qty) AS q FROM orders",
    "SELECT customer, count(*), sum(amount), avg(amount), sum(qty) AS q, count(note) AS n FROM orders GROUP BY 1",
    "SELECT customer, max(amount), min(note), sum(weight), avg(weight) FROM orders GROUP BY customer",
    "SELECT c.region, count(*), sum(o.amount) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY 1 "
    "HAVING count(*) > 1",
    "SELECT max(s), count(*) FROM (SELECT customer, sum(qty) AS s FROM orders GROUP BY customer) g",
    "WITH g AS (SELECT customer, sum(qty) AS s FROM orders GROUP BY customer) "
    "SELECT a.customer, c.region, b.s FROM g a JOIN g b USING (customer) JOIN customers c ON c.id = a.customer",
    "SELECT note FROM orders UNION ALL SELECT region FROM customers",
    "SELECT customer, count(DISTINCT qty), sum(DISTINCT amount), avg(DISTINCT qty), count(*) FILTER (WHERE qty > 1) "
    "AS f, bool_and(qty > 1), bool_or(note = 'x'), stddev(amount), var_pop(qty % 10) AS v FROM orders GROUP BY 1",
    "SELECT customer, bit_and(qty), bit_or(qty), bit_xor(qty), stddev(weight), variance(weight), "
    "var_pop(weight) AS vp, stddev_pop(weight) AS sp, count(DISTINCT note) AS n, sum(DISTINCT weight) AS w, "
    "corr(id, weight), covar_pop(id, weight), covar_samp(id, weight), regr_slope(id, weight), "
    "regr_intercept(id, weight), regr_r2(id, weight), regr_count(id, weight), regr_avgx(id, weight), "
    "regr_avgy(id, weight), regr_sxx(id, weight), regr_syy(id, weight), regr_sxy(id, weight) FROM orders GROUP BY 1",
    "SELECT customer, mode() WITHIN GROUP (ORDER BY note) AS m, mode() WITHIN GROUP (ORDER BY qty DESC) AS md, "
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY amount) AS pc, percentile_cont(0.5) WITHIN GROUP (ORDER BY weight "
    "DESC) AS pw, percentile_disc(0.4) WITHIN GROUP (ORDER BY note) AS pd, percentile_disc(1) WITHIN GROUP (ORDER BY "
    "qty DESC) FILTER (WHERE qty > 1) AS pf, string_agg(note, ',' ORDER BY qty DESC, note) AS s, string_agg(DISTINCT "
    "note, '' ORDER BY note DESC) AS sd, array_agg(note ORDER BY qty NULLS FIRST, note DESC NULLS LAST) AS a, "
    "array_agg(DISTINCT qty) AS ad, array_agg(id ORDER BY id) FILTER (WHERE qty > 1) AS af FROM orders GROUP BY 1",
    "SELECT customer, json_agg(note ORDER BY note) AS j, jsonb_agg(amount ORDER BY amount, id) AS b, "
    "json_agg(DISTINCT qty) AS d, json_object_agg(id, note ORDER BY id) AS o, json_agg(qty > 1 ORDER BY id) "
    "FILTER (WHERE id > 4) AS f FROM orders GROUP BY 1",
    "SELECT string_agg(note, ',' ORDER BY note), mode() WITHIN GROUP (ORDER BY customer), count(DISTINCT customer), "
    "bool_and(qty > 0), stddev(qty % 10), percentile_cont(0.5) WITHIN GROUP (ORDER BY qty % 100), array_agg(id ORDER "
    "BY id) FROM orders WHERE customer = 2",
    "SELECT DISTINCT customer, note FROM orders UNION SELECT id, region FROM customers",
    "SELECT customer FROM orders EXCEPT ALL SELECT id FROM customers",
    "SELECT o.id, c.region FROM orders o LEFT JOIN customers c ON c.id = o.customer",
    "SELECT c.id, o.amount, o.note FROM orders o FULL JOIN customers c ON c.id = o.customer AND o.qty > c.id",
    "SELECT c.id, count(note) AS n, sum(amount) FROM customers c LEFT JOIN orders o ON customer = c.id GROUP BY 1",
    "SELECT id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.qty <> c.id)",
    "SELECT id, qty FROM orders WHERE customer NOT IN (SELECT id FROM customers WHERE region > 'n') AND qty > 0",
    "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY id) AS r, sum(amount) OVER (PARTITION BY customer "
    "ORDER BY qty DESC) AS s, lag(note, 1, '-') OVER (ORDER BY id) AS p FROM orders WHERE id > qty",
    "SELECT c.region, o.id, amount FROM orders o JOIN customers c ON c.id = customer ORDER BY amount, o.id LIMIT 3",
    "SELECT DISTINCT ON (customer) customer, note, id FROM orders ORDER BY customer, note DESC, id",
    "SELECT id, (SELECT sum(qty) FROM orders o WHERE o.customer = c.id) AS s FROM customers c",
    "SELECT id FROM customers c WHERE region = 'north' OR id IN (SELECT customer FROM orders WHERE customer > 0)",
]


class Lake:
    """Inputs and stored outputs in memory, never netted; the oracle's tables beside them."""

    def __init__(self, runner: Spark, oracle: psycopg.Connection[Any], random: Random) -> None:
        self.runner, self.oracle, self.random = runner, oracle, random
        self.rows: dict[str, list[Row]] = {"orders": [], "customers": [(n, "north") for n in range(4)]}
        self.history: dict[str, list[tuple[Row, int]]] = {n: [(r, 1) for r in rows] for n, rows in self.rows.items()}
        self.relations = {"orders": ORDERS, "customers": CUSTOMERS}
        self.ids = 0

    def round(self, names: list[str]) -> dict[str, list[tuple[Row, int]]]:
        changes: dict[str, list[tuple[Row, int]]] = {name: [] for name in names}
        for name, found in changes.items():
            for _ in range(6):
                rows = self.rows[name]
                if rows and self.random.random() < 0.5:
                    found.append((rows.pop(self.random.randrange(len(rows))), -1))
                if name == "orders" or len({row[0] for row in rows}) < 4:
                    found.append((self._row(name), 1))
                    rows.append(found[-1][0])
        return changes

    def _row(self, name: str) -> Row:
        pick = self.random.choice
        if name == "orders":
            self.ids += 1
            return (self.ids, pick([None, 0, 1, 2]), pick([None, "1.10", "-2.25", "1000000.01"]),
                    pick([None, 1, 2, 2**41]), pick([None, 0.1, 0.2, 1e9]),
                    pick([None, "", "x", "é", 'q"\\\n\x0b']))  # fmt: skip
        free = [n for n in range(4) if n not in {row[0] for row in self.rows[name]}]
        return (free[0], pick([None, "north", "south"]))

    def bind(self, read: Read, changes: dict[str, list[tuple[Row, int]]], states: dict[str, pa.Table]) -> None:
        if read.kind == "state":
            return self.runner.bind(read, states[read.relation])
        found, old = self.relations[read.relation], self.history[read.relation]
        new = changes.get(read.relation, [])
        if read.kind == "rows":
            return self.runner.bind(read, arrow(found, self.rows[read.relation]))
        weighted = {"before": old, "after": old + new, "delta": new}[read.kind]
        table = arrow(found, [row for row, _ in weighted], [w for _, w in weighted])
        if read.kind == "delta":
            table = consolidate(table, found.schema.names)
        return self.runner.bind(read, table)

    def expected(self, sql: str, columns: Sequence[Column]) -> list[Row]:
        for name, found in self.relations.items():
            declared = ", ".join(f"{c.name} {type_name(c.pg)}" for c in found.schema.columns)
            self.oracle.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({declared})")
            marks = ", ".join(["%s"] * len(found.schema.columns))
            with self.oracle.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", self.rows[name])
        cells = [f'"{c.name}"::text' if c.pg.oid in (114, 3802) else f'"{c.name}"' for c in columns]
        return self.oracle.execute(f"SELECT {', '.join(cells)} FROM ({sql}) AS q").fetchall()


@pytest.mark.parametrize("sql", QUERIES)
def test_refreshes_follow_postgres(spark: SparkSession, oracle: psycopg.Connection[Any], sql: str) -> None:
    lake = Lake(Spark(spark), oracle, Random(7))
    view = compile_view("v", sql, resolve=lambda parts: lake.relations[parts[-1]], typer=PostgresTyper(oracle))
    names = {"view": [c.name for c in view.columns], **{s.name: list(s.schema.names) for s in view.states}}
    program = full(view)
    for read in program.reads:
        lake.bind(read, {}, {})
    stored = lake.runner.outputs(program)
    for changed in (sorted(view.used_columns), sorted(view.used_columns)[:1]):  # both tables, then only customers
        changes = lake.round(changed)
        growing = frozenset(name for name, found in changes.items() if all(weight > 0 for _, weight in found))
        program = delta(view, frozenset(changed), growing=growing)
        for read in program.reads:
            lake.bind(read, changes, stored)
        for name, rows in lake.runner.outputs(program).items():
            stored[name] = pa.concat_tables([stored[name], rows.cast(stored[name].schema)])
        for name, found in changes.items():
            lake.history[name] += found
        netted = consolidate(stored["view"], names["view"]).to_pylist()
        assert all(row[WEIGHT] > 0 for row in netted)
        found_rows = [tuple(row.values())[:-1] for row in netted for _ in range(row[WEIGHT])]
        same(found_rows, lake.expected(sql, view.columns), view)
    _same_states(lake, view, stored)


def _same_states(lake: Lake, view: View, stored: dict[str, pa.Table]) -> None:
    """What is remembered equals what would be remembered if computed now."""
    again = full(view)
    for read in again.reads:
        lake.bind(read, {}, {})
    fresh = lake.runner.outputs(again) if view.states else {}
    for state in view.states:
        sides = [
            [tuple(row.values()) for row in consolidate(rows[state.name], list(state.schema.names)).to_pylist()]
            for rows in (fresh, stored)
        ]
        columns = [*state.schema.columns, Column.of(WEIGHT, INT8)]
        missing, extra = differing_rows(*sides, columns, floats(columns))
        assert not missing + extra, f"{state.name} of {view.sql}: {missing} {extra}"
