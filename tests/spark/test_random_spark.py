"""Random queries on Spark: what the Postgres renderer shows of the rules, the Spark renderer must show too."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import psycopg
import pytest
from postgres.views.grammar import DEPTHS, REFUSALS, Grammar
from postgres.views.maintained import Inputs
from postgres.views.queries import TABLES
from postgres.views.workload import Workload
from spark.follower import Follower
from spark.runner import Spark

from penstock.embedded import EmbeddedPostgres
from penstock.errors import UnsupportedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INFERRED = """
    SELECT a.s, max(a.c) FROM (
        SELECT (SELECT sum(b.c) FROM t JOIN (
                    SELECT count(z.s) AS c FROM (SELECT y.n, y.k, y.f FROM t x JOIN t y ON x.id = y.n) w CROSS JOIN t z
                    WHERE nullif(z.m, 1.50) <= 9.99 AND w.k BETWEEN 0 AND 0 OR NOT (w.n > 2) OR w.n IN (0, 1, NULL) OR w.f < 0.15
                ) b ON t.n IS NOT DISTINCT FROM b.c LEFT JOIN t o ON t.id = o.id
                LEFT JOIN LATERAL unnest(ARRAY[o.n, b.c]) WITH ORDINALITY AS f (n, o) ON true) AS c, v.s
        FROM (VALUES (1, 'a'), (2, NULL), (NULL, 'b'), (1, 'a')) v (k, s)
        WHERE v.k IN (SELECT n FROM u WHERE n = -1) OR NOT (v.k > -1)) a
    GROUP BY 1"""  # noqa: E501


@pytest.fixture(scope="module")
def inputs(catalog_server: EmbeddedPostgres) -> Iterator[Inputs]:
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE random_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(catalog_server.dsn_of("random_oracle"), autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'; SET client_min_messages = error")
            yield Inputs(connection, TABLES)
        admin.execute("DROP DATABASE random_oracle WITH (FORCE)")


@pytest.mark.timeout(900)
def test_random_queries_follow(spark: SparkSession, interpreted: None, inputs: Inputs) -> None:
    run(spark, inputs, seed=1, queries=30, depths=[1, 1, 2], started_on_spark=5)


def test_extremes_while_rows_only_come(spark: SparkSession, inputs: Inputs) -> None:
    inputs.clear()
    inputs.apply({"u": [((1, 2, "b"), 1), ((None, 1, "a"), 1)], "w": [((1, "x"), 1), ((2, "y"), 1)]})
    follower = Follower(Spark(spark), inputs)
    follower.start("v", "SELECT w.s, max(u.n), min(u.s), count(*) FROM u JOIN w ON w.k = u.k GROUP BY w.s")
    inputs.apply({"u": [((1, 5, None), 1), ((2, None, "é"), 1), ((3, 9, ""), 1)], "w": [((3, "x"), 1)]})
    assert inputs.growing == {"u", "w"}
    follower.moved()
    follower.refresh(follower.views[0], frozenset({"u", "w"}))
    assert follower.check(follower.views[0]) == 2


def test_a_union_over_parts_of_which_spark_has_inferred_something(spark: SparkSession, inputs: Inputs) -> None:
    """Spark 4.2 does not find the columns of what it inferred of a checkpoint: "key not found"."""
    inputs.clear()
    workload = Workload(inputs, Random(3))
    workload.round(24)
    follower = Follower(Spark(spark), inputs)
    follower.start("v", INFERRED)
    changed = workload.round(10)
    follower.moved()
    follower.refresh(follower.views[0], changed | {"t", "u"})
    follower.check(follower.views[0])


@pytest.mark.matrix
@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_soak_of_random_queries(spark: SparkSession, interpreted: None, inputs: Inputs) -> None:
    """1,000 queries from a seed that is never the same; it is printed."""
    first = int(os.environ.get("PENSTOCK_SEED", time.time_ns() // 10**9 * 1000))
    for seed in range(first, first + int(os.environ.get("PENSTOCK_SOAK_SPARK", "1000")) // 50):
        print(f"PENSTOCK_SEED={seed}", flush=True)
        run(spark, inputs, seed, queries=50, depths=DEPTHS)


def run(
    spark: SparkSession, inputs: Inputs, seed: int, queries: int, depths: list[int], started_on_spark: int | None = None
) -> None:
    """The first `started_on_spark` queries are computed anew by Spark too; None: all of them."""
    random = Random(seed)
    inputs.clear()
    workload = Workload(inputs, random)
    workload.round(24)
    follower, grammar = Follower(Spark(spark), inputs), Grammar(random)
    while len(follower.views) < queries:
        sql = grammar.query(random.choice(depths))
        try:
            number = len(follower.views)
            follower.start(f"v{number}", sql, on_spark=started_on_spark is None or number < started_on_spark)
        except UnsupportedQuery as error:
            if not any(known in error.message for known in REFUSALS):
                raise AssertionError(f"{error.message}: {sql}") from error
    changed = workload.round(10)
    follower.moved()
    for view in follower.views:
        try:
            follower.refresh(view, changed)
            follower.check(view)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {view.sql}\n{error}") from error
