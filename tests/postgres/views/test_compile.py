"""What PostgreSQL says of a query is what the view says: names, types, errors; and what follows: keys, columns used."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from postgres.views.maintained import relation

from penstock.errors import InvalidQuery, UnsupportedQuery
from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views import PostgresTyper, Relation, View, compile_view, explain
from penstock.views.approximate import approximate
from penstock.views.determined import undetermined
from penstock.views.expr import DATE, FLOAT8, INT2, INT4, INT8, NUMERIC, TEXT

MONEY = PgType(1700, ((12 << 16) | 2) + 4, "numeric(12,2)")
MOOD = PgType(70000, -1, "mood")
ORDERS = relation(
    "shop.public.orders",
    Column.of("id", INT8, nullable=False),
    Column.of("customer", INT4),
    Column.of("amount", MONEY),
    Column.of("day", DATE),
    Column.of("mood", MOOD),
    Column.of("doc", PgType(3802, -1, "jsonb")),
    Column.of("tiny", INT2),
    Column.of("Odd Name", TEXT),
    Column.of("f", FLOAT8),
    Column.of("any", NUMERIC),
    key=["id"],
)
CUSTOMERS = relation(
    "shop.public.customers", Column.of("id", INT4, nullable=False), Column.of("region", TEXT), key=["id"]
)  # fmt: skip


def resolve(parts: tuple[str, ...]) -> Relation:
    return {"orders": ORDERS, "customers": CUSTOMERS}[parts[-1]]


@pytest.fixture
def make(oracle: psycopg.Connection[Any]) -> Any:
    return lambda sql: compile_view("v", sql, resolve=resolve, typer=PostgresTyper(oracle))


def shape(view: View) -> dict[str, str]:
    return {column.name: column.spark for column in view.columns}


def test_names_and_types_are_postgres(make: Any) -> None:
    view = make(
        "SELECT id, tiny + tiny AS small, tiny + 1 AS wide, amount * 2 AS twice, amount / 3 AS third, f, "
        "CASE WHEN tiny > 0 THEN 'a' END, coalesce(customer, 0), mood, \"Odd Name\" FROM Public.ORDERS"
    )
    assert shape(view) == {
        "id": "bigint", "small": "smallint", "wide": "int", "twice": "decimal(38,2)", "third": "decimal(38,16)",
        "f": "double", "case": "string", "coalesce": "int", "mood": "string", "Odd Name": "string",
    }  # fmt: skip
    assert view.columns[8].pg == MOOD


def test_aggregate_types(make: Any) -> None:
    view = make(
        "SELECT count(*), sum(tiny) AS a, sum(customer) AS b, sum(id) AS c, sum(amount) AS d, sum(f) AS e, "
        "avg(id) AS g, avg(f) AS h, max(day) AS i FROM orders"
    )
    assert list(shape(view).values()) == [
        "bigint", "bigint", "bigint", "decimal(38,0)", "decimal(38,2)", "double", "decimal(38,16)", "double", "date",
    ]  # fmt: skip
    assert view.singleton
    assert view.key == ()


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT id, amount FROM orders", ("id",)),
        ("SELECT amount FROM orders", ()),
        ("SELECT id AS number FROM orders WHERE amount > 0", ("number",)),
        ("SELECT o.id, c.region FROM orders o JOIN customers c ON c.id = o.customer", ("id",)),
        ("SELECT o.id, c.id AS cid FROM orders o JOIN customers c ON c.id < o.customer", ("id", "cid")),
        ("SELECT o.id, p.id AS pid FROM orders o JOIN orders p ON p.customer = o.customer", ("id", "pid")),
        ("SELECT id, o.amount FROM orders o JOIN customers c USING (id)", ("id",)),
        ("SELECT customer, day, count(*) FROM orders GROUP BY 1, 2", ("customer", "day")),
        ("SELECT count(*) FROM orders GROUP BY customer", ()),
        ("SELECT id FROM orders UNION ALL SELECT id FROM orders", ()),
        ("SELECT g.customer, c.region FROM (SELECT customer, sum(amount) FROM orders GROUP BY 1) g "
         "JOIN customers c ON c.id = g.customer", ("customer",)),
    ],
)  # fmt: skip
def test_key(make: Any, sql: str, key: tuple[str, ...]) -> None:
    assert make(sql).key == key


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ('SELECT id, amount, "any", f, max(f) AS m FROM orders GROUP BY id, amount, "any", f', ""),
        ('SELECT amount * 2 AS a, "any" + 1 AS b, round("any", 2) AS c, abs(f) AS d, coalesce(f, 0) FROM orders', ""),
        ("SELECT sum(amount) AS s, count(f) AS n, min(amount) AS a FROM orders", ""),
        ("SELECT amount / 3 AS q, id / 3 AS whole, (amount / 3)::int AS i, amount / 3 > 1 AS b FROM orders", "q"),
        ("SELECT avg(id) AS i, avg(amount) + 1 AS a, avg(f) AS f, sum(f) AS s, max(f) AS m FROM orders", "a f i s"),
        ("SELECT CASE WHEN amount / 3 > 1 THEN amount END AS kept, f + 1 AS g, amount::float8 AS h FROM orders", "g h"),
        ("SELECT max(a) AS m, sum(a) AS s, count(a) FROM (SELECT avg(amount) AS a FROM orders GROUP BY day) d", "m s"),
        ("WITH g AS (SELECT customer AS c, avg(id) AS a FROM orders GROUP BY 1) "
         "SELECT x.c, y.a FROM g x JOIN g y ON x.c = y.c", "a"),
        ("SELECT amount AS a, id + 0.5 AS b FROM orders UNION ALL SELECT amount, avg(id) FROM orders GROUP BY 1", "b"),
    ],
)  # fmt: skip
def test_quotients_and_computed_floats_are_approximate(make: Any, sql: str, columns: str) -> None:
    assert set(approximate(make(sql))) == set(columns.split())


def test_only_what_is_made_of_a_root_has_the_room_of_one(make: Any) -> None:
    view = make(
        "SELECT s / 3 AS s, a, v FROM "
        "(SELECT stddev(amount) AS s, avg(amount) AS a, variance(amount) AS v FROM orders) o"
    )
    assert approximate(view) == {"s": "root", "a": "quotient", "v": "quotient"}


def test_a_column_of_a_view_is_what_it_was_there(make: Any) -> None:
    view = make("SELECT c.region, sum(amount) AS s, max(tiny) AS t, sum(o.any) AS u FROM orders o JOIN customers c "
                "ON c.id = o.customer GROUP BY 1")  # fmt: skip
    assert approximate(view) == {}
    assert approximate(view, {"shop.public.orders": {"any": "root", "f": "quotient"}}) == {"u": "root"}


def test_only_used_columns_are_read(make: Any) -> None:
    view = make("SELECT c.region, sum(o.amount) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY 1")
    assert view.used_columns == {
        "shop.public.orders": ("customer", "amount"), "shop.public.customers": ("id", "region"),
    }  # fmt: skip
    assert [found.name for found in view.inputs] == ["shop.public.orders", "shop.public.customers"]
    assert make("SELECT count(*) FROM orders").used_columns == {"shop.public.orders": ()}


def test_a_cte_used_twice_remembers_once(make: Any) -> None:
    view = make("WITH g AS (SELECT customer, count(*) AS n FROM orders GROUP BY 1) SELECT a.n, b.n AS m FROM g a, g b")
    assert [state.name for state in view.states] == ["agg0"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT amout FROM orders", "amount"),
        ("SELECT id FROM orders o JOIN customers c ON true", "ambiguous"),
        ("SELECT nosuch.id FROM orders", "nosuch"),
        ("SELECT id, sum(amount) FROM orders", "GROUP BY"),
        ("SELECT id, id FROM orders", "more than once"),
        ("SELECT id AS _weight FROM orders", "reserved"),
        ("SELECT id + day FROM orders", "operator does not exist"),
        ("SELECT id FROM orders WHERE day > 'yesterdayish'", "date"),
    ],
)
def test_invalid(make: Any, sql: str, said: str) -> None:
    with pytest.raises(InvalidQuery) as error:
        make(sql)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT now() AS n FROM orders", "current_timestamp"),
        ("SELECT random() AS n FROM orders", "rand"),
        ("SELECT md5(mood) AS n FROM orders", "md5"),
        ("SELECT id FROM orders WHERE day > 'today'", "today"),
        ("SELECT id FROM orders WHERE doc = '{}'", "jsonb"),
        ("SELECT id FROM orders WHERE mood < 'sad'", "mood"),
        ("SELECT max(mood) FROM orders", "mood"),
        ("SELECT string_agg(mood, ',') FROM orders", "string_agg"),
        ("SELECT any * any AS x FROM orders".replace("any", '"any"'), "digits"),
        ("SELECT f::numeric AS x FROM orders", "cast"),
        ("SELECT id FROM orders WHERE mood LIKE \"Odd Name\"", "constant pattern"),
        ("SELECT id FROM orders WHERE mood ~ 'x'", "a regular expression on mood"),
        ("SELECT id FROM generate_series(1, 3) AS id", "reads no table"),
        ("SELECT o.id FROM orders o, regexp_split_to_table('a', ',') AS x", "regexp_split_to_table() in FROM"),
        ("SELECT id, unnest(ARRAY[1, 2]) AS x FROM orders", "unnest()"),
        ("SELECT id, doc @> doc AS x FROM orders", "@>"),
    ],
)  # fmt: skip
def test_unsupported(make: Any, sql: str, said: str) -> None:
    with pytest.raises(UnsupportedQuery) as refusal:
        make(sql)
    assert said in str(refusal.value)
    assert refusal.value.hint


def test_opaque_values_may_be_equal_grouped_and_given(make: Any) -> None:
    view = make("SELECT mood, count(*) FROM orders WHERE mood = 'sad' OR mood IN ('glad') GROUP BY mood")
    assert shape(view) == {"mood": "string", "count": "bigint"}


def test_typing_leaves_nothing_behind(oracle: psycopg.Connection[Any], make: Any) -> None:
    make("SELECT id FROM orders")
    with pytest.raises(InvalidQuery):
        make("SELECT nothing FROM orders")
    assert oracle.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    assert oracle.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_explain_names_operators_and_laws(make: Any) -> None:
    text = explain(make("SELECT c.region, count(*) FROM orders o JOIN customers c ON c.id = o.customer GROUP BY 1"))
    for part in ("γ aggregate by", "⋈ join on", "scan shop.public.orders", "ΔL ⋈ R₀", "reads delta of", "key: region"):
        assert part in text


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT id, (SELECT region FROM customers c WHERE c.region = 'x') AS r FROM orders", "more than one row"),
        (
            "SELECT id, (SELECT count(*) FROM customers c RIGHT JOIN orders p ON c.id = o.customer) AS n FROM orders o",
            "RIGHT or FULL JOIN in a subquery",
        ),
        (
            "SELECT id FROM orders o WHERE EXISTS (WITH x AS (SELECT 1 FROM customers WHERE id = o.id) SELECT FROM x)",
            "out of reach",
        ),
        ("SELECT id, ARRAY(SELECT id FROM customers) AS a FROM orders", r"ARRAY\(SELECT"),
        (
            "SELECT (SELECT count(*) FROM jsonb_each(o.doc)) AS n FROM (SELECT doc FROM orders) o",
            "of a query without a key",
        ),
        (
            "SELECT id FROM orders o WHERE EXISTS (SELECT 1 WHERE o.id > 1 UNION ALL SELECT count(*) FROM customers)",
            "an aggregate without GROUP BY in a set operation",
        ),
        (
            "SELECT o.id FROM orders o, ROWS FROM (generate_series(1, 2), generate_series(1, 3)) AS x (a, b)",
            "ROWS FROM of several",
        ),
        ("SELECT o.id, x.a FROM orders o, json_to_recordset('[]') AS x (a int)", "json_to_recordset"),
        ("SELECT o.id, x.a FROM orders o, jsonb_to_record(o.doc) AS x (a varchar(3))", "varchar"),
        ("SELECT id FROM orders WHERE doc @? '$.a'", "@"),
        ("SELECT doc #- ARRAY[id::text] AS x FROM orders", "#- needs a constant path"),
        ("SELECT 1 AS one", "reads no table"),
        ("SELECT c.id FROM customers c RIGHT JOIN LATERAL (SELECT 1 AS x) l ON true", "RIGHT JOIN LATERAL"),
        (
            "SELECT c.id FROM customers c LEFT JOIN (orders o CROSS JOIN generate_series(1, c.id) g) ON true",
            "within parentheses that reads",
        ),
        ("SELECT c.id FROM customers c LEFT JOIN (orders o JOIN orders p USING (id)) ON true", "USING or NATURAL"),
        ("SELECT v FROM (VALUES (1)) x(v)", "reads no table"),
        ("SELECT DISTINCT doc FROM orders", "DISTINCT on jsonb"),
        ("SELECT sum(f) OVER (ORDER BY id) AS s FROM orders", "order of adding"),
        ("SELECT last_value(id) OVER (ORDER BY day) AS s FROM orders", "a frame that ends with"),
        ("SELECT sum(id) OVER (ORDER BY id RANGE 5 PRECEDING) AS s FROM orders", "the frame RANGE"),
        ("SELECT rank() OVER (ORDER BY mood) AS s FROM orders", "ORDER BY on mood"),
        ("SELECT id FROM orders LIMIT 1 + 1", "LIMIT of anything but a number"),
        ("SELECT amount * 2 AS id FROM orders ORDER BY id + 1 LIMIT 1", "ORDER BY computes with id|does not exist"),
        ("SELECT doc FROM orders EXCEPT SELECT doc FROM orders", "EXCEPT on jsonb"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(make: Any, sql: str, named: str) -> None:
    with pytest.raises(UnsupportedQuery, match=named) as refusal:
        make(sql)
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("sql", "choice"),
    [
        ("SELECT id, row_number() OVER (PARTITION BY customer ORDER BY day) AS r FROM orders", ("row_number",)),
        ("SELECT id, row_number() OVER (PARTITION BY customer ORDER BY day, id) AS r FROM orders", ()),
        ("SELECT id, rank() OVER (ORDER BY day) AS r, sum(id) OVER (ORDER BY day) AS s FROM orders", ()),
        ("SELECT id FROM orders ORDER BY day LIMIT 3", ("row_number",)),
        ("SELECT id FROM orders ORDER BY day, id LIMIT 3", ()),
        ("SELECT day, tiny FROM orders ORDER BY tiny, day LIMIT 3", ()),
        ("SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer ORDER BY o.id LIMIT 3", ()),
        ("SELECT DISTINCT ON (customer) customer, id FROM orders ORDER BY customer", ("row_number",)),
    ],
)
def test_where_rows_are_equal_in_an_order_there_is_a_choice(make: Any, sql: str, choice: tuple[str, ...]) -> None:
    view = make(sql)
    assert undetermined(view) == choice
    assert ("PostgreSQL may choose" in explain(view)) == bool(choice)
