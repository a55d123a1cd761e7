"""Views on Spark give PostgreSQL's answers: all allowed expressions over edge values, refreshes over several rounds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pytest
from postgres.views.maintained import Row, floats, relation

from penstock.embedded import EmbeddedPostgres
from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views import PostgresTyper, Program, Read, Relation, View, compile_view, delta, full, placeholder
from penstock.views.approximate import approximate
from penstock.views.expr import BOOL, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC, TEXT, TIMESTAMP, TIMESTAMPTZ
from penstock.views.oracle import differing_rows
from penstock.views.typer import type_name
from penstock.zset import WEIGHT, consolidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MONEY = PgType(1700, ((12 << 16) | 2) + 4, "numeric(12,2)")
FINE = PgType(1700, ((20 << 16) | 6) + 4, "numeric(20,6)")
CHAR5 = PgType(1042, 5 + 4, "character(5)")
UUID = PgType(2950, -1, "uuid")


@pytest.fixture(scope="module")
def oracle(source_server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE spark_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(source_server.dsn_of("spark_oracle"), autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            yield connection
        admin.execute("DROP DATABASE spark_oracle WITH (FORCE)")


EDGE = relation(
    "edge",
    Column.of("id", INT4, nullable=False),
    Column.of("i", INT4),
    Column.of("j", INT4),
    Column.of("h", INT2),
    Column.of("b", INT8),
    Column.of("m", MONEY),
    Column.of("p", FINE),
    Column.of("x", NUMERIC),
    Column.of("f", FLOAT8),
    Column.of("g", FLOAT4),
    Column.of("s", TEXT),
    Column.of("c", CHAR5),
    Column.of("t", BOOL),
    Column.of("d", DATE),
    Column.of("ts", TIMESTAMP),
    Column.of("tz", TIMESTAMPTZ),
    Column.of("u", UUID),
    key=["id"],
)
_UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
_VALUES: dict[str, list[Any]] = {
    "i": [None, 0, 1, -1, 7, -7, 1000, 46340, -46340, 3],
    "j": [2, 3, -3, 5, None, 2, 7, 1, -1, 9],
    "h": [None, 0, 1, -1, 100, -100, 7, 12, 150, -3],
    "b": [None, 0, 1, -1, 2**40, -(2**40), 9, 10**15, 5, -8],
    "m": [None, "0.00", "0.01", "-0.01", "2.50", "-2.50", "99999999.99", "3.33", "1.05", "-7.77"],
    "p": [None, "0.000001", "-0.5", "0.5", "1.5", "2.5", "-1.5", "12345678901234.654321", "0.333333", "3"],
    "x": [None, "0", "1.5", "-2.25", "100000", "0.000000000000000001", "7", "3.14159", "-1", "2"],
    "f": [None, 0.0, -0.0, 1.5, 2.5, -2.5, 1e300, float("inf"), float("-inf"), float("nan")],
    "g": [None, 0.0, 0.5, 1.5, -2.5, 3.0, 1000.0, 0.25, -0.75, 2.0],
    "s": [None, "", "a", "Abc", "  pad ", "été", "a%b", "x_y", "a\\b", "日本語"],
    "c": [None, "ab   ", "a    ", "     ", "abcde", "b    ", "Z    ", "é    ", "x y  ", "a    "],
    "t": [None, True, False, True, False, True, None, True, False, True],
    "d": [None, date(2020, 1, 31), date(2020, 2, 29), date(1999, 12, 31), date(2024, 12, 30), date(2021, 1, 3),
          date(1970, 1, 1), date(2000, 3, 1), date(1900, 2, 28), date(2026, 7, 4)],
    "ts": [None, datetime(2020, 1, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, 12, 0, 0, 1), datetime(2020, 2, 29),
           datetime(2021, 1, 3, 4, 5, 6), datetime(2000, 1, 1), datetime(2024, 12, 30, 1), datetime(1999, 3, 31, 2, 30),
           datetime(2010, 6, 15, 12, 30, 15, 500000), datetime(1900, 1, 1, 0, 0, 1)],
    "u": [None, _UUID, _UUID.replace("3f", "00", 1), _UUID.replace("3f", "ff", 1), *[_UUID] * 6],
}  # fmt: skip
_VALUES["tz"] = [value and value.replace(tzinfo=UTC) for value in _VALUES["ts"]]
ROWS: list[Row] = [
    (n, *(_VALUES[column.name][n] for column in EDGE.schema.columns[1:])) for n in range(len(_VALUES["i"]))
]

EXPRESSIONS: dict[str, list[str]] = {
    "integers": [
        "i + j", "i - j", "i * j", "i / j", "i % j", "mod(i, j)", "h + h", "h * h", "h - 1", "i + b", "b / j",
        "b % 7", "-i", "abs(i)", "i * 2 + 1", "h / 3::smallint", "sign(i)", "floor(i)", "ceil(i)",
        "i::bigint * 3000000000",
    ],
    "numerics": [
        "m + p", "m - p", "m * p", "m / 3", "m / p", "p / 7", "i / 3.0", "m % 2", "p % 0.7", "-m", "abs(p)", "m + i",
        "p * i", "x + m", "x * 2", "x / 3", "i * 1.5", "b + 0.5", "round(p)", "round(p, 2)", "round(m, 1)",
        "round(m, 4)", "floor(p)", "ceil(p)", "floor(m)", "ceil(m)", "sign(p)", "m * m",
        "m * (1 - 0.05) * (1 + 0.08)", "round(m / 3, 2)", "1.0 / 3", "m / (j * 1.0)", "p / nullif(x, 0)", "x - 0.1",
        "round(i)", "m * 100",
    ],
    "floats": [
        "f + 1", "f * 2", "f - g", "f / 3", "f + i", "g + g", "g * 2", "m * f", "-f", "abs(f)", "round(f)",
        "floor(f)", "ceil(f)", "sign(f)", "round(g)", "f::float8", "g::float8", "m::float8", "i::float8", "i::real",
        "round(f * 0.5)",
    ],
    "comparisons": [
        "i = j", "i <> j", "i < j", "i <= j", "i > j", "i >= j", "i = m", "m > p", "m < 2.505", "f > 1",
        "f = 'NaN'::float8", "f < m", "s < 'b'", "s = ''", "s >= 'Abc'", "s > 'ab'", "t = true", "t AND i > 0",
        "t OR i > 0", "NOT t", "i IS NULL", "i IS NOT NULL", "t IS TRUE", "t IS NOT TRUE", "t IS FALSE",
        "i IS DISTINCT FROM j", "i IS NOT DISTINCT FROM j", "i BETWEEN 0 AND 7", "i NOT BETWEEN 0 AND 7",
        "m BETWEEN -1 AND 2.5", "i IN (1, 2, 7)", "i NOT IN (1, 2)", "i IN (1, NULL)", "s IN ('a', 'Abc')",
        "d > '2020-01-31'", "d = date '1970-01-01'", "ts >= '2020-01-31 23:59:59.999999'",
        "tz < '2020-02-29 00:00:00+00'", "d < ts", "tz > ts", "tz = d", "s LIKE 'a%'", "s LIKE '%b'",
        "s LIKE 'a\\%b'", "s LIKE '_'", "s LIKE '%\\_%'", "s LIKE 'a\\\\b'", "s NOT LIKE '%a%'", "s ILIKE 'ABC'",
        "s NOT ILIKE '%A%'", "c = 'ab'", "c < 'b'", "c IN ('a', 'b')", "u = '3F2504E0-4F89-11D3-9A0C-0305E82C3301'",
        "u < u", "b > 3.5", "g = 1.5", "d BETWEEN '2000-01-01' AND '2020-12-31'", "s LIKE ''", "s LIKE '%'",
        "s LIKE '日__'", "m = 2.5", "c = s",
    ],
    "conditionals": [
        "CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' ELSE 'zero' END", "CASE i WHEN 1 THEN m WHEN 7 THEN 0 END",
        "CASE WHEN t THEN i ELSE m END", "CASE WHEN t THEN i ELSE b END", "CASE WHEN t THEN f ELSE i END",
        "coalesce(i, 0)", "coalesce(m, p)", "coalesce(s, 'none')", "coalesce(i, b, 5)", "coalesce(d, '2000-01-01')",
        "nullif(i, 0)", "nullif(s, '')", "nullif(m, 2.5)", "greatest(i, j)", "least(i, j, 0)", "greatest(m, p)",
        "least(f, 1)", "greatest(f, 0)", "greatest(s, 'b')", "greatest(d, date '2010-01-01')", "coalesce(t, false)",
        "CASE WHEN i IS NULL THEN NULL ELSE s END", "coalesce(f, 0)", "nullif(f, 'NaN')",
    ],
    "casts": [
        "(p % 1000)::int", "m::int", "m::bigint", "p::bigint", "(i / 2.0)::int", "g::int", "g::bigint",
        "(g + 0.5)::int", "i::numeric", "i::numeric(10,2)", "p::numeric(16,1)", "m::numeric(12,1)", "i::text",
        "b::text", "m::text", "p::text", "t::text", "t::int", "i::boolean", "d::text", "ts::text", "d::timestamp",
        "ts::date", "tz::date", "d::timestamptz", "ts::timestamptz", "tz::timestamp", "s::varchar(2)", "h::int",
        "i::bigint", "'12'::int + i", "'2.5'::numeric + m", "'x'::text", "'2020-02-29'::date", "i::varchar(2)",
        "c::text", "s::varchar", "'1.5'::float8", "u::text", "m::numeric",
    ],
    "texts": [
        "lower(s)", "upper(s)", "length(s)", "char_length(s)", "length(c)", "s || 'x'", "s || i", "'<' || s || '>'",
        "substring(s, 2, 2)", "substring(s from 2)", "substr(s, 1, 1)", "substring(s, 0, 2)", "substring(s, -1, 3)",
        "substring(s from 1 for 0)", "trim(s)", "ltrim(s)", "rtrim(s)", "btrim(s, 'ab')", "trim(leading 'a' from s)",
        "trim(trailing 'b' from s)", "replace(s, 'a', 'zz')", "replace(s, '', 'q')", "concat(s, i, 'x')",
        "concat(s, NULL)", "upper(c)", "c || '|'", "lower('ABC')", "length('')", "trim(both from s)",
        "ltrim(s, ' a')",
    ],
    "times": [
        "d + 1", "d - 1", "1 + d", "d - date '2000-01-01'", "d + i", "d + interval '1 day'", "d + interval '1 month'",
        "d - interval '1 year'", "ts + interval '1 month'", "ts - interval '2 hours'",
        "ts + interval '1 month 2 days'", "tz + interval '90 minutes'", "ts + interval '3 weeks'",
        "ts - interval '13 months'", "date_trunc('day', ts)", "date_trunc('month', ts)", "date_trunc('week', ts)",
        "date_trunc('year', tz)", "date_trunc('hour', ts)", "date_trunc('quarter', ts)", "date_trunc('minute', tz)",
        "date_trunc('second', ts)", "date_trunc('month', d)", "extract(year from d)", "extract(month from ts)",
        "extract(day from tz)", "extract(dow from d)", "extract(isodow from d)", "extract(doy from d)",
        "extract(week from d)", "extract(quarter from d)", "extract(hour from ts)", "extract(minute from ts)",
        "extract(second from ts)", "extract(epoch from ts)", "extract(epoch from d)", "extract(epoch from tz)",
        "ts + interval '10 seconds'", "interval '1 day' + ts",
    ],
}  # fmt: skip


class Spark:
    """Runs programs over in-memory tables."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def bind(self, read: Read, table: pa.Table) -> None:
        self.session.createDataFrame(table).createOrReplaceTempView(placeholder(read))

    def rows(self, sql: str) -> list[Row]:
        return [tuple(row.values()) for row in self.session.sql(sql).toArrow().to_pylist()]

    def outputs(self, program: Program) -> dict[str, pa.Table]:
        whole = self.session.sql(program.combined_sql()).toArrow()
        return {name: _of_output(whole, name) for name in program.outputs}


def _of_output(whole: pa.Table, name: str) -> pa.Table:
    kept = whole.filter(whole[name].is_valid()).combine_chunks()
    struct = kept[name].combine_chunks()
    struct = struct.chunk(0) if isinstance(struct, pa.ChunkedArray) else struct
    arrays = [struct.field(i) for i in range(struct.type.num_fields)]
    return pa.table([*arrays, kept[WEIGHT]], names=[*(f.name for f in struct.type), WEIGHT])


def arrow(found: Relation, rows: list[Row], weights: list[int] | None = None) -> pa.Table:
    schema = found.schema.arrow()
    arrays = []
    for place, field in enumerate(schema):
        values = [row[place] for row in rows]
        if pa.types.is_decimal(field.type):
            values = [None if v is None else Decimal(v) for v in values]
        arrays.append(pa.array(values, field.type))
    if weights is None:
        return pa.table(arrays, schema=schema)
    return pa.table([*arrays, pa.array(weights, pa.int64())], names=[*schema.names, WEIGHT])


@pytest.fixture(scope="module")
def edges(oracle: psycopg.Connection[Any]) -> None:
    columns = ", ".join(f"{c.name} {type_name(c.pg)}" for c in EDGE.schema.columns)
    oracle.execute(f"CREATE TABLE edge ({columns})")
    marks = ", ".join(["%s"] * len(EDGE.schema.columns))
    with oracle.cursor() as cursor:
        cursor.executemany(f"INSERT INTO edge VALUES ({marks})", ROWS)


def same(found: list[Row], expected: list[Row], view: View) -> None:
    expected = [tuple(map(_comparable, row)) for row in expected]
    found = [tuple(map(_comparable, row)) for row in found]
    missing, extra = differing_rows(expected, found, view.columns, approximate(view))
    pairs = sorted(zip(sorted(missing, key=str), sorted(extra, key=str), strict=False), key=str)
    differences = [
        f"{column.name} {view.sql}: PostgreSQL {a!r}, Spark {b!r}"
        for wanted, got in pairs for column, a, b in zip(view.columns, wanted, got, strict=True) if str(a) != str(b)
    ]  # fmt: skip
    assert not missing, "\n".join(differences)
    assert not extra, "\n".join(differences)


def _comparable(value: Any) -> Any:
    return str(value) if type(value).__name__ == "UUID" else value


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
    "SELECT id, (SELECT sum(qty) FROM orders o WHERE o.customer = c.id) AS s, "
    "id IN (SELECT customer FROM orders) AS i FROM customers c WHERE region = 'north' OR EXISTS (SELECT 1 FROM orders)",
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
                    pick([None, 1, 2, 2**41]), pick([None, 0.1, 0.2, 1e9]), pick([None, "", "x", "é"]))  # fmt: skip
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

    def expected(self, sql: str) -> list[Row]:
        for name, found in self.relations.items():
            columns = ", ".join(f"{c.name} {type_name(c.pg)}" for c in found.schema.columns)
            self.oracle.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")
            marks = ", ".join(["%s"] * len(found.schema.columns))
            with self.oracle.cursor() as cursor:
                cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", self.rows[name])
        return self.oracle.execute(sql).fetchall()


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
        program = delta(view, frozenset(changed))
        for read in program.reads:
            lake.bind(read, changes, stored)
        for name, rows in lake.runner.outputs(program).items():
            stored[name] = pa.concat_tables([stored[name], rows.cast(stored[name].schema)])
        for name, found in changes.items():
            lake.history[name] += found
        netted = consolidate(stored["view"], names["view"]).to_pylist()
        assert all(row[WEIGHT] > 0 for row in netted)
        found_rows = [tuple(row.values())[:-1] for row in netted for _ in range(row[WEIGHT])]
        same(found_rows, lake.expected(sql), view)
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
