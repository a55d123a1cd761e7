"""Parenthesised outer joins, subqueries that skip a level and short forms follow PostgreSQL on Spark; all of them do in
the Postgres renderer."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

import psycopg
import pytest
from postgres.views.maintained import Inputs
from postgres.views.queries import APART, PARENTHESES, SHORT, TABLES
from postgres.views.workload import Workload
from spark.follower import Follower
from spark.runner import Spark

from penstock.embedded import EmbeddedPostgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def inputs(catalog_server: EmbeddedPostgres) -> Iterator[Inputs]:
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE nested_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(catalog_server.dsn_of("nested_oracle"), autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'UTC'; SET client_min_messages = error")
            yield Inputs(connection, TABLES)
        admin.execute("DROP DATABASE nested_oracle WITH (FORCE)")


def test_nested_queries_follow(spark: SparkSession, interpreted: None, inputs: Inputs) -> None:
    workload = Workload(inputs, Random(4))
    for _ in range(3):
        workload.round(24)
    follower = Follower(Spark(spark), inputs)
    for number, sql in enumerate([*PARENTHESES[::5], *APART[::5], *SHORT[::3]]):
        follower.start(f"v{number}", sql)
    changed = workload.round(10)
    follower.moved()
    for view in follower.views:
        follower.refresh(view, changed)
        follower.check(view)
