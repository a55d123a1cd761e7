"""What a view may do with a domain, a list, a struct or what is held as text: give it on, or be refused by name."""

from __future__ import annotations

from typing import Any

import psycopg
import pyarrow as pa
import pytest
from postgres.views.maintained import relation

from penstock.errors import UnsupportedQuery
from penstock.relation.schema import Column, Schema
from penstock.relation.types import PgType
from penstock.views import PostgresTyper, View, compile_view
from penstock.views.expr import DATE, INT4, NUMERIC, TEXT

PRICE = PgType(1700, ((10 << 16) | 2) + 4, "numeric(10,2)")
T = relation(
    "shop.public.t",
    Column.of("id", INT4, nullable=False),
    Column.of("d", DATE),
    Column.of("price", PgType(70001, -1, "price", "d", base=PRICE)),
    Column.of("iv", PgType(1186, -1, "interval", "b")),
    Column.of("pt", PgType(600, -1, "point", "b")),
    Column.of("ints", PgType(1007, -1, "integer[]", "b", element=INT4)),
    Column.of("moods", PgType(70003, -1, "mood[]", "b", element=PgType(70002, -1, "mood", "e"))),
    Column.of("nan", NUMERIC).with_form(pa.string()),
    Column.of("inf", DATE).with_form(pa.string()),
    Column.of("other", DATE).with_form(pa.string()),
    Column.of("square", PgType(1007, -1, "integer[]", "b", element=INT4)).with_form(pa.string()),
    Column.of("ip", PgType(869, -1, "inet", "b")),
    Column.of("jb", PgType(3802, -1, "jsonb", "b")),
    Column.of("name", PgType(70004, -1, "public.citext", "b")),
    Column.of("mood", PgType(70002, -1, "mood", "e")),
    Column.of("word", PgType(70005, -1, "word", "d", base=TEXT)),
    key=["id"],
)


@pytest.fixture
def make(oracle: psycopg.Connection[Any]) -> Any:
    return lambda sql: compile_view("v", sql, resolve=lambda _: T, typer=PostgresTyper(oracle))


def forms(view: View) -> dict[str, str]:
    return {column.name: column.spark for column in view.columns}


def test_every_column_may_be_given_on(make: Any) -> None:
    names = ", ".join(T.schema.names)
    view = make(f"SELECT {names} FROM t UNION ALL SELECT {names} FROM t WHERE iv IS NOT NULL")
    assert forms(view) == {column.name: column.spark for column in T.schema.columns}
    assert Schema.from_json(Schema(view.columns).to_json()).columns == view.columns


def test_a_domain_computes_as_its_base(make: Any) -> None:
    view = make("SELECT word || '!' AS w, sum(price * 2) AS s FROM t WHERE price > 1.5 GROUP BY word || '!'")
    assert forms(view) == {"w": "string", "s": "decimal(38,2)"}


def test_values_that_look_alike_where_they_are_equal_may_be_compared(make: Any) -> None:
    assert forms(make("SELECT ip, count(*) AS n FROM t WHERE inf = other AND mood = 'sad' GROUP BY ip"))


def test_what_is_held_as_its_text_is_cast_to_it(make: Any) -> None:
    assert forms(make("SELECT upper(mood::text) AS m, jb::varchar(9) AS j FROM t")) == {"m": "string", "j": "string"}


REFUSED = [
    ("SELECT id FROM t WHERE word = 'a '::bpchar", "text to bpchar"),
    ("SELECT id FROM t WHERE jb @> jb", "not a constant"),
    ("SELECT id FROM t WHERE moods @> moods", r"@> on mood\[\]"),
    ("SELECT id FROM t WHERE square && ints", r"&& of integer\[\]"),
    ("SELECT id FROM t WHERE jb <@ '{}'", "jb <@"),
    ("SELECT jb ?| ARRAY[word] AS x FROM t", "constant names"),
    ("SELECT jsonb_build_object(word, 1) AS x FROM t", "constant keys"),
    ("SELECT iv, count(*) FROM t GROUP BY iv", "GROUP BY on interval"),
    ("SELECT id FROM t WHERE iv = iv", "= on interval"),
    ("SELECT id FROM t WHERE iv > '1 day'", "interval"),
    ("SELECT ints, count(*) FROM t GROUP BY ints", r"GROUP BY on integer\[\]"),
    ("SELECT id FROM t WHERE ints = ints", r"integer\[\]"),
    ("SELECT id FROM t WHERE square = square", r"integer\[\]"),
    ("SELECT coalesce(ints, ints) AS x FROM t", r"integer\[\]"),
    ("SELECT sum(nan) FROM t", "sum or avg on numeric"),
    ("SELECT nan + 1 AS x FROM t", "on numeric"),
    ("SELECT id FROM t WHERE nan = nan", "= on numeric"),
    ("SELECT id FROM t WHERE nan > 1", "on numeric"),
    ("SELECT coalesce(nan, price) AS x FROM t", "numeric"),
    ("SELECT max(inf) FROM t", "max on date"),
    ("SELECT id FROM t WHERE inf = '2020-01-01'", "2020-01-01"),
    ("SELECT id FROM t WHERE inf < d", "< on date, date"),
    ("SELECT coalesce(inf, d) AS x FROM t", "coalesce on date, date"),
    ("SELECT inf::text AS x FROM t", "date to text"),
    ("SELECT inf::timestamp AS x FROM t", "date to timestamp"),
    ("SELECT inf + 1 AS x FROM t", "date"),
    ("SELECT id FROM t WHERE ip = '10.0.0.1/32'", "10.0.0.1/32"),
    ("SELECT ip::cidr AS x FROM t", "inet to cidr"),
    ("SELECT jb::json AS x FROM t", "jsonb to json"),
    ("SELECT jb, count(*) FROM t GROUP BY jb", "jsonb"),
    ("SELECT name, count(*) FROM t GROUP BY name", "citext"),
    ("SELECT id FROM t WHERE name = 'a'", "citext"),
    ("SELECT coalesce(mood, 'sad') AS x FROM t", "mood"),
    ("SELECT any_value(id) FROM t", "any_value"),
    ("SELECT array_agg(ints) FROM t", r"array_agg on integer\[\]"),
    ("SELECT json_agg(DISTINCT jb) FROM t", r"json_agg\(DISTINCT\) on jsonb"),
    ("SELECT string_agg(word, word) FROM t", "constant separator"),
    ("SELECT percentile_cont(ARRAY[0.5]) WITHIN GROUP (ORDER BY id) FROM t", "one constant fraction"),
    ("SELECT mode() WITHIN GROUP (ORDER BY jb) FROM t", "ORDER BY on jsonb"),
    ("SELECT random() AS x FROM t", r"random\(\)"),
    ("SELECT now() AS x FROM t", r"current_timestamp\(\)"),
    ("SELECT clock_timestamp() AS x FROM t", r"clock_timestamp\(\)"),
    ("SELECT gen_random_uuid() AS x FROM t", r"gen_random_uuid\(\)"),
    ("SELECT id FROM t WHERE d < current_date", "current_date"),
    (r"SELECT id FROM t WHERE word ~ '\w+'", "regular expression"),
    ("SELECT id FROM t WHERE word ~ word", "constant"),
    ("SELECT regexp_replace(word, 'a|ab', '', 'g') AS x FROM t", "regexp_replace"),
    ("SELECT sqrt(price) AS x FROM t", "sqrt of numeric"),
    ("SELECT to_char(d, 'Month') AS x FROM t", "to_char"),
    ("SELECT initcap(word) AS x FROM t", "initcap"),
]


@pytest.mark.parametrize(("sql", "named"), REFUSED)
def test_what_would_differ_from_postgres_is_refused_by_name(make: Any, sql: str, named: str) -> None:
    with pytest.raises(UnsupportedQuery, match=named):
        make(sql)
