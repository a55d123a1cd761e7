"""Every expression a view may use, by family, and rows of values that bite: NULL, negative, empty, unicode, NaN."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from postgres.views.maintained import Row, relation

from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views.expr import BOOL, DATE, FLOAT4, FLOAT8, INT2, INT4, INT8, NUMERIC, TEXT, TIMESTAMP, TIMESTAMPTZ

MONEY = PgType(1700, ((12 << 16) | 2) + 4, "numeric(12,2)")
FINE = PgType(1700, ((20 << 16) | 6) + 4, "numeric(20,6)")
CHAR5 = PgType(1042, 5 + 4, "character(5)")
UUID = PgType(2950, -1, "uuid")
JSONB = PgType(3802, -1, "jsonb")

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
    Column.of("o", JSONB),
    Column.of("l", JSONB),
    Column.of("y", JSONB),
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
    # As PostgreSQL prints them: objects, arrays, anything.
    "o": [None, "{}", '{"a": 1}', '{"a": 1.0, "bb": [1, 2.50, "x"]}', '{"a": {"b": {"c": null}}, "é": "é"}',
          '{"": 0, "a\\"b": "x: y, {z}", "long key": [[], {}, [{"a": 1}]]}', '{"a": "1", "b": true, "c": false}',
          '{"a": [1, [2, 3]], "n": -1.50}', '{"a": null, "b": "\\n\\t\\u0001"}', '{"a": 10, "aa": 100, "日": "本"}'],
    "l": [None, "[]", "[1]", '["a", "b", "a"]', '[1, [2, [3]], {"a": 1}]', "[null, true, false]",
          '[{"a": 1, "b": 2}, {"a": 2}]', '["a: b", "c, d", "\\"q\\""]', "[0.10, 1.00, 100]",
          '[[1, 2], [3], "x", 1.0]'],
    "y": [None, "1", "1.00", '"a"', "null", "true", "[]", "{}", '["a", 1]', '{"a": "é"}'],
}  # fmt: skip
_VALUES["tz"] = [value and value.replace(tzinfo=UTC) for value in _VALUES["ts"]]
ROWS: list[Row] = [
    (n, *(_VALUES[column.name][n] for column in EDGE.schema.columns[1:])) for n in range(len(_VALUES["i"]))
]

EXPRESSIONS: dict[str, list[str]] = {
    "json": [
        "o -> 'a'", "o ->> 'a'", "o -> s", "l -> 0", "l ->> -1", "o #> '{a,b}'", "o #>> '{bb,2}'", "y ->> 'a'",
        "y -> 1", "y -> 0", "y ->> 0", "y -> -1", "y ->> -2", "o -> 0", "y -> j", "y #> '{0}'", "y #>> '{-1}'",
        "o ? 'a'", "l ? 'a'", "y ? 'a'", "o ?| ARRAY['é', 'bb']", "o ?& '{a,b}'", "l ?| ARRAY['b', 'c, d']",
        "o ?| ARRAY['']", "o ?| ARRAY['x', 'n', 'aa']", "o ?& ARRAY['a', 'b', 'c']",
        "o @> '{}'", "o @> '{\"a\": 1}'", "o @> '{\"a\": {\"b\": {}}}'::jsonb", "o @> '{\"bb\": [2.5]}'",
        "o @> '{\"bb\": [\"x\", 1.00]}'", "o @> '{\"long key\": [[{\"a\": 1.0}]]}'", "o @> '{\"a\": null}'",
        "o @> '{\"n\": -1.5}'", "o @> '[]'", "l @> '1'", "l @> '[1]'", "l @> '[[2, [3]]]'", "l @> '[{\"a\": 1}, 1]'",
        "l @> '\"a: b\"'", "l @> '[0.1, 1e2]'", "y @> '1'", "y @> '1.000'", "y @> 'null'", "y @> '\"a\"'", "y @> '[]'",
        "'{\"a\": 1}' <@ o", "NOT o @> '{\"b\": \"\\n\\t\\u0001\"}'",
        "o || '{\"bb\": 7, \"a\": 1e2}'", "o || o", "l || l", "l || '1'", "o || l", "y || y",
        "'[0.50, {\"k\": \"é\"}]' || y",
        "y || '{\"z\": {\"y\": 1, \"x\": 2, \"\": 3}}'::jsonb",
        "o #- '{a}'", "o #- '{n,x}'", "o #- '{bb,-1}'", "jsonb_build_object('k', o) #- '{k,a}'", "l #- '{0}'",
        "l #- '{1,1,0}'", "l #- '{-1,1}'", "o #- '{}'", "l #- '{7}'",
        "o - 'a'", "o - s", "l - 'a'", "o - ARRAY['a', 'é']", "o - '{bb,n}'::text[]", "l - 0", "l - -1", "l - 5",
        "l - j",
        "jsonb_typeof(y)", "jsonb_array_length(l)", "jsonb_extract_path(o, 'a', '1')",
        "jsonb_build_object('id', id, 'm', m, 'a', s, 'o', o, 'é', d, '', t)", "jsonb_build_object()",
        "jsonb_build_array(i, s, ts, y, NULL, 'x', 15)", "to_jsonb(s)", "to_jsonb(m)", "to_jsonb(d)", "to_jsonb(o)",
        "o::text", "y::varchar(3)",
        "jsonb_build_object('k', jsonb_build_array(u, h)) || jsonb_build_object('j', to_jsonb(ts))",
    ],
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
        "s LIKE '日__'", "m = 2.5", "c = s", "c LIKE 'ab'", "c LIKE 'ab%'", "c LIKE 'ab   '",
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
        "d - interval '1 year'", "d + j * interval '1 month'", "ts - interval '36 hours' * h",
        "tz + '1 day 2 hours'::interval",
        "ts - (3 * '1 week'::interval)", "ts + interval '1 month'", "ts - interval '2 hours'",
        "ts + interval '1 month 2 days'", "tz + interval '90 minutes'", "ts + interval '3 weeks'",
        "ts - interval '13 months'", "date_trunc('day', ts)", "date_trunc('month', ts)", "date_trunc('week', ts)",
        "date_trunc('year', tz)", "date_trunc('hour', ts)", "date_trunc('quarter', ts)", "date_trunc('minute', tz)",
        "date_trunc('second', ts)", "date_trunc('month', d)", "extract(year from d)", "extract(month from ts)",
        "extract(day from tz)", "extract(dow from d)", "extract(isodow from d)", "extract(doy from d)",
        "extract(week from d)", "extract(quarter from d)", "extract(hour from ts)", "extract(minute from ts)",
        "extract(second from ts)", "extract(epoch from ts)", "extract(epoch from d)", "extract(epoch from tz)",
        "ts + interval '10 seconds'", "interval '1 day' + ts", "extract(epoch from ts - timestamp '2000-01-01')",
        "extract(epoch from (tz - ts))", "extract(isoyear from d)", "tz AT TIME ZONE 'UTC'", "ts AT TIME ZONE 'utc'",
        "to_char(ts, 'YYYY-MM-DD HH24:MI:SS')", "to_char(d, 'YYYY/MM')", "to_char(tz, 'DD.MM.YYYY')",
    ],
    "mathematics": [
        "sqrt(abs(f))", "sqrt(abs(i))", "sqrt(g * g)", "exp(g / 100)", "ln(abs(g) + 1)", "log(abs(g) + 1)", "cbrt(f)",
        "power(g, 2)", "power(abs(g), 0.5::float8)", "g ^ 2", "power(1, f)", "power(f, 0)", "power(abs(j), i % 5)",
        "trunc(f)", "trunc(g)", "trunc(m)", "trunc(p, 2)", "trunc(x, 3)", "trunc(i)", "i & j", "i | j", "i # j", "~i",
        "h & 7::smallint", "b | i", "trunc(m, 5)",
    ],
    "strings": [
        "left(s, 2)", "left(s, -1)", "left(s, i % 3)", "right(s, 2)", "right(s, -1)", "right(s, 0)", "right(s, i % 3)",
        "lpad(s, 5, 'xy')", "lpad(s, 1, 'x')", "lpad(s, 6)", "rpad(s, 5, 'xy')", "rpad(s, 0, 'x')", "rpad(s, 4, '')",
        "repeat(s, 2)", "repeat(s, -1)", "repeat(s, i % 3)", "reverse(s)", "position('b' in s)", "strpos(s, '')",
        "strpos(s, 'é')", "split_part(s, 'b', 1)", "split_part(s, 'b', 2)", "split_part(s, 'b', -1)",
        "split_part(s, '', 1)", "split_part(s, ' ', 9)", "concat_ws('-', s, i, 'x')", "concat_ws(s, 'a', 'b')",
        "starts_with(s, 'a')", "starts_with(s, '')", "translate(s, 'abé', 'xy')", "translate(s, 'aa', 'xy')",
        "ascii(s)", "md5(s)", "octet_length(s)", "bit_length(s)", "s || m", "s || d", "d || s", "s || u", "s || t",
        "s || ts", "left(c, 3)", "reverse('abc')",
    ],
    "patterns": [
        "s ~ 'a'", "s ~ '^a'", "s ~ 'b$'", "s ~ '^.$'", "s !~ 'a'", "s ~* 'ABC'", "s ~* 'É'", "s ~ '[a-c]{2,}'",
        "s ~ '(a|é)+'", "s ~ '^$'", r"s ~ '\\'", "s ~ '^[^a-z]+$'", "s ~ '_'", r"s ~ '\.'", r"i::text ~ '^-?\d+$'",
        "s ~ ''", "regexp_replace(s, '[a-z]+', '<$1>', 'g')", "regexp_replace(s, '[^a-z]', '', 'g')",
        "regexp_replace(s, ' ', '_', 'g')", "c ~ 'b$'",
    ],
    "more times": [
        "extract(day from ts - timestamp '2000-01-01')",
        "extract(day from tz - timestamptz '2010-06-15 12:30:15.5+00')", "tz AT TIME ZONE 'America/New_York'",
        "date_trunc('day', tz AT TIME ZONE 'Europe/Berlin')", "to_char(ts, 'Mon YYYY')",
        "to_char(ts, 'YYYY-\"Q\"Q')", "to_char(ts, 'Dy, DD FMMonth YYYY HH12:MI AM')", "to_char(d, 'FMDay')",
        "ts + (i % 1000 || ' days')::interval", "ts + make_interval(days => h)",
        "ts - make_interval(months => h::int)", "d + (h || ' month')::interval",
    ],
    "more texts": [
        "regexp_replace(s, '[a-c]', '*')", "regexp_replace(s, 'b+$', '$1')", "regexp_replace(s, '^ +', '')",
        "regexp_replace(s, 'b', '')", "substring(s from '[a-z]+')", "substring(s from '^[A-Z]')",
        "regexp_substr(s, '[b-z]+')", "substring(s, i % 4, 2)", "substr(s, length(s) - 1)", "concat(s, m, d, u)",
        "concat_ws('-', s, d, m, ts)",
    ],
    "more numbers": [
        "sin(g)", "cos(g)", "tan(g)", "atan(f)", "atan2(g, 2)", "degrees(f)", "radians(g)", "asin(g / 10000)",
        "acos(g / 10000)", "pi() * g", "i << 2", "b >> 1", "i = ANY ('{1,7}')", "i <> ALL ('{1, 7}'::int[])",
        "s = ANY ('{a,Abc}'::text[])", "m > ANY ('{1,2.5}')",
    ],
}  # fmt: skip
