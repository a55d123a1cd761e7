"""The queries of TPC-H on Spark, through two rounds of changes to every table, and ten in a soak."""

from __future__ import annotations

import os
import time
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


@pytest.fixture(scope="module")
def tpch(catalog_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tpch]:
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE tpch_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(catalog_server.dsn_of("tpch_oracle"), autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'; SET client_min_messages = error")
            yield Tpch(connection, tmp_path_factory.mktemp("tpch"))
        admin.execute("DROP DATABASE tpch_oracle WITH (FORCE)")


@pytest.mark.timeout(900)
def test_queries_follow(spark: SparkSession, interpreted: None, tpch: Tpch) -> None:
    seen = run(spark, tpch, seed=8, rounds=2)
    assert not [name for name, rows in seen.items() if not rows], "a query that selects nothing proves nothing"


@pytest.mark.matrix
@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_soak_of_ten_rounds(spark: SparkSession, interpreted: None, tpch: Tpch) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", time.time_ns() // 10**9))
    print(f"PENSTOCK_SEED={seed}", flush=True)
    run(spark, tpch, seed, rounds=10)


def run(spark: SparkSession, tpch: Tpch, seed: int, rounds: int) -> dict[str, int]:
    """How many rows of each query were compared; some seeds leave none for one or two of them."""
    follower, seen = Follower(Spark(spark), tpch), dict[str, int]()
    for name in QUERIES:
        follower.start(name, tiny(name))
    random = Random(seed)
    for _ in range(rounds):
        changed = tpch.change(random)
        follower.moved()
        for view in follower.views:
            follower.refresh(view, changed)
            seen[view.name] = seen.get(view.name, 0) + follower.check(view)
    return seen
