"""All queries of TPC-H, kept fresh by the Postgres renderer through rounds of changes to every table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg
import pytest
from postgres.views.maintained import Beside
from postgres.views.tpch import Tpch, tiny

from penstock.bench.tpch.queries import QUERIES
from penstock.bench.views.plan import Recorded
from penstock.embedded import EmbeddedPostgres
from penstock.views import PostgresTyper, compile_view, delta

ROUNDS = 10


@pytest.fixture(scope="module")
def tpch(
    oracle: psycopg.Connection[Any], catalog_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tpch]:
    """In the oracle's database, over a connection of its own: a round of these tables is no round of the others."""
    with psycopg.connect(catalog_server.dsn_of(oracle.info.dbname), autocommit=True) as connection:
        connection.prepare_threshold = None
        connection.execute("SET TIME ZONE 'UTC'; SET synchronous_commit = off; SET client_min_messages = error")
        yield Tpch(connection, tmp_path_factory.mktemp("tpch"))


def test_all_queries_follow(tpch: Tpch) -> None:
    views = [Beside(tpch, name, tiny(name)) for name in QUERIES]
    for view in views:
        view.start()
    random = Random(22)
    for number in range(ROUNDS):
        changed = tpch.change(random)
        for view in views:
            view.follow(changed, last=number == ROUNDS - 1)
    assert not [view.schema for view in views if not view.rows_seen], "a query that selects nothing proves nothing"


@pytest.mark.parametrize("name", QUERIES)
def test_planning_is_quick(tpch: Tpch, name: str) -> None:
    """From SQL text to the plan of the delta in a tenth of a second of this process, without calls to a server."""
    typer, spent = Recorded(PostgresTyper(tpch.connection)), []
    for _ in range(4):
        start = time.process_time()
        view = compile_view(name, QUERIES[name], resolve=tpch.resolve, typer=typer)
        delta(view, frozenset(relation.name for relation in view.inputs))
        spent.append(time.process_time() - start)
    assert min(spent) < 0.1, f"{name} took {min(spent) * 1000:.0f} ms"
