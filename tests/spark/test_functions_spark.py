"""Functions in FROM and the inside of jsonb on Spark, letter for letter as PostgreSQL gives them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import psycopg
import pytest
from postgres.views.maintained import Inputs
from postgres.views.queries import TABLES
from postgres.views.workload import Workload
from spark.follower import Follower
from spark.runner import Spark

from penstock.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSIDE = """
SELECT id, j -> 'a' AS a, j ->> 'a' AS b, j -> 'b' AS c, j ->> 'b' AS d, j ->> 'c d' AS e, j -> 'é' AS f, l -> 1 AS g,
       l ->> -1 AS h, j -> 'a' -> 'b' ->> 1 AS i, j #> '{a,b}' AS k, j #>> '{a,b,-1}' AS m, l #>> '{1,a}' AS n,
       j ? 'a' AS o, l ? 'a' AS p, jsonb_typeof(j -> 'b') AS q, jsonb_array_length(l) AS r, l -> 1 -> 'a' AS s,
       id % 4 = ANY (a) AS t, id % 3 <> ALL (a) AS u, 2 < ANY (a) AS v, a[1] AS w, a[2] AS x,
       cardinality(a) AS y, array_length(a, 1) AS z, array_to_string(a, '-') AS aa, a @> ARRAY[1] AS ab,
       a && ARRAY[id, 3, NULL] AS ac, ARRAY[id % 4] <@ a AS ad
FROM d"""
# Every function, as text beside its number.
EXPANDED = """
SELECT 'each' AS f, d.id, e.k || '=' || e.v AS x, e.o FROM d, jsonb_each_text(d.j) WITH ORDINALITY AS e (k, v, o)
UNION ALL SELECT 'keys', d.id, e.k, 0 FROM d LEFT JOIN LATERAL jsonb_object_keys(d.j) AS e (k) ON true
UNION ALL SELECT 'elements', d.id, e.v ->> 'a', e.o FROM d, jsonb_array_elements(d.l) WITH ORDINALITY AS e (v, o)
UNION ALL SELECT 'texts', d.id, e.v, e.o
          FROM d LEFT JOIN LATERAL jsonb_array_elements_text(d.l) WITH ORDINALITY AS e (v, o) ON true
UNION ALL SELECT 'unnest', d.id, e.v::text, e.o FROM d, unnest(d.a) WITH ORDINALITY AS e (v, o)
UNION ALL SELECT 'series', d.id, g.x::text, g.o FROM d, generate_series(3, d.id % 6, -1) WITH ORDINALITY AS g (x, o)
UNION ALL SELECT 'days', d.id, g.x::date::text, g.o
          FROM d, generate_series(date '2024-02-25' + d.id % 4, '2024-03-01', '1 day') WITH ORDINALITY AS g (x, o)
UNION ALL SELECT 'months', d.id, g.x::text, g.o
          FROM d, generate_series(timestamp '2024-05-31 01:00', timestamp '2024-05-31'
                                  + (d.id % 9 - 5) * interval '1 month', '-1 month') WITH ORDINALITY AS g (x, o)
UNION ALL SELECT 'hours', d.id, extract(hour FROM g.x)::int::text, g.o
          FROM d, generate_series(timestamptz '2024-01-01 00:00:00+00', timestamptz '2024-01-01 20:00:00+00',
                                  interval '90 minutes') WITH ORDINALITY AS g (x, o)
UNION ALL SELECT 'objects', d.id % 3, jsonb_object_agg(d.id, d.j)::text, count(*) FROM d GROUP BY 2
UNION ALL SELECT 'records', d.id, coalesce(e.a::text, '-') || coalesce(e.b, '-'), e.n
          FROM d, jsonb_to_recordset(jsonb_build_array(d.j, jsonb_build_object('n', d.id, 'b', NULL)))
                  AS e (a jsonb, b text, n int) WHERE d.j IS NOT NULL
UNION ALL SELECT 'record', d.id, e.b, e.n
          FROM d LEFT JOIN jsonb_to_record(d.j) AS e (b text, n bigint, "é" boolean) ON true
UNION ALL SELECT 'arrays', d.id, e.v::text || coalesce(e.s, '-'), e.o
          FROM d LEFT JOIN unnest(d.a, ARRAY['x', NULL]) WITH ORDINALITY AS e (v, s, o) ON true
UNION ALL SELECT e.f, d.id, e.v, 0
          FROM d, LATERAL (VALUES ('a', d.j ->> 'a'), ('l', d.l ->> 0), (d.id::text, NULL)) AS e (f, v)
UNION ALL SELECT 'array', d.id, e.v::text, e.o FROM d, unnest(ARRAY[d.id, NULL, 7]) WITH ORDINALITY AS e (v, o)"""


@pytest.fixture(scope="module")
def inputs(catalog_server: EmbeddedPostgres) -> Iterator[Inputs]:
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE functions_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(catalog_server.dsn_of("functions_oracle"), autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'; SET client_min_messages = error")
            yield Inputs(connection, TABLES)
        admin.execute("DROP DATABASE functions_oracle WITH (FORCE)")


def test_functions_follow(spark: SparkSession, interpreted: None, inputs: Inputs) -> None:
    workload = Workload(inputs, Random(3))
    inputs.apply({"d": [(workload._row("d"), 1) for _ in range(30)]})
    follower = Follower(Spark(spark), inputs)
    follower.start("inside", INSIDE)
    follower.start("expanded", EXPANDED)
    gone = [(row, -1) for row in inputs.rows["d"][::3]]
    inputs.apply({"d": [*gone, *((workload._row("d"), 1) for _ in range(10))]})
    follower.moved()
    for view in follower.views:
        follower.refresh(view, frozenset({"d"}))
        assert follower.check(view) > 20
