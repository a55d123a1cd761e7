"""The queries of TPC-H on Spark, through two rounds of changes to every table."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import psycopg
import pytest
from postgres.views.tpch import Tpch, tiny
from spark.follower import Follower
from spark.runner import Spark

from penstock.bench.tpch.queries import QUERIES
from penstock.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 2
# Aggregates, LIMIT, EXISTS, an outer join, a CTE used twice, NOT IN with count(DISTINCT), NOT EXISTS and a scalar.
FEW = ["q1", "q3", "q4", "q13", "q15", "q16", "q22"]


@pytest.fixture(scope="module")
def tpch(catalog_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tpch]:
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE tpch_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(catalog_server.dsn_of("tpch_oracle"), autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'; SET client_min_messages = error")
            yield Tpch(connection, tmp_path_factory.mktemp("tpch"))
        admin.execute("DROP DATABASE tpch_oracle WITH (FORCE)")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("names", [FEW, pytest.param(list(QUERIES), marks=pytest.mark.matrix)], ids=["few", "all"])
def test_queries_follow(spark: SparkSession, interpreted: None, tpch: Tpch, names: list[str]) -> None:
    follower, seen = Follower(Spark(spark), tpch), dict[str, int]()
    for name in names:
        follower.start(name, tiny(name))
    random = Random(8)
    for _ in range(ROUNDS):
        changed = tpch.change(random)
        follower.moved()
        for view in follower.views:
            follower.refresh(view, changed)
            seen[view.name] = seen.get(view.name, 0) + follower.check(view)
    assert not [name for name, rows in seen.items() if not rows], "a query that selects nothing proves nothing"
