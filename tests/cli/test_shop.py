"""The demo's shop stays consistent in PostgreSQL, whatever order its writers come in."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from penstock.demo import shop
from penstock.embedded import EmbeddedPostgres

BROKEN: dict[str, LiteralString] = {
    "a total that is not the sum of the lines": """
        SELECT o.id FROM orders o
        WHERE o.total IS DISTINCT FROM (SELECT sum(l.amount) FROM order_lines l WHERE l.order_id = o.id)""",
    "a customer in a city the shop does not know": "SELECT id FROM customers WHERE city <> ALL (%s)",
}


def broken(connection: shop.Connection) -> dict[str, list[tuple[int]]]:
    found = {}
    for what, query in BROKEN.items():
        arguments = (list(shop.CITIES),) if "%s" in query else ()
        rows = connection.execute(query, arguments).fetchall()
        if rows:
            found[what] = rows
    return found


def rows(connection: shop.Connection) -> dict[str, list[tuple[object, ...]]]:
    return {
        table: connection.execute(
            psycopg.sql.SQL("SELECT * FROM {} ORDER BY 1, 2").format(psycopg.sql.Identifier(table))
        ).fetchall()
        for table in shop.TABLES
    }


@pytest.fixture(scope="module")
def shop_db(source_server: EmbeddedPostgres) -> Iterator[str]:
    """One shop for all tests here: each starts from a consistent one, whatever the others did to it."""
    with psycopg.connect(source_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE consistent_shop")
        yield source_server.dsn_of("consistent_shop")
        admin.execute("DROP DATABASE consistent_shop WITH (FORCE)")


@pytest.fixture(scope="module")
def counts_when_new(shop_db: str) -> dict[str, int]:
    with psycopg.connect(shop_db, autocommit=True) as connection:
        shop.create(connection)
        assert broken(connection) == {}
        return {table: len(found) for table, found in rows(connection).items()}


@pytest.fixture
def connection(shop_db: str, counts_when_new: dict[str, int]) -> Iterator[shop.Connection]:
    with psycopg.connect(shop_db, autocommit=True) as connection:
        yield connection


def test_a_new_shop_is_consistent_and_has_all_its_rows(counts_when_new: dict[str, int]) -> None:
    counts = counts_when_new

    assert counts["orders"] == shop.ORDERS
    assert counts["order_lines"] >= 2 * shop.ORDERS


@pytest.mark.parametrize("step", shop.MIX, ids=lambda step: step.__name__)
def test_every_step_keeps_the_shop_consistent(connection: shop.Connection, step: shop.Step) -> None:
    before = rows(connection)
    outcomes = {shop.transact(connection, random.Random(seed), step)[0] for seed in range(5)}

    assert broken(connection) == {}
    if step is shop.think_better_of_it:
        assert outcomes == {"rolled back"}
        assert rows(connection) == before
    else:
        assert outcomes == {step.__name__}
        assert rows(connection) != before


def test_concurrent_writers_keep_the_shop_consistent(connection: shop.Connection, shop_db: str) -> None:
    workload = shop.Workload(shop_db, rate=300, writers=3)
    workload.start()
    deadline = time.monotonic() + 20
    while workload.transactions() < 300 and time.monotonic() < deadline:
        time.sleep(0.05)
    workload.stop()

    assert workload.transactions() >= 300
    assert set(workload.counts()) >= {"place_order", "ship_order", "cancel_order", "rolled back"}
    assert broken(connection) == {}


def test_a_writer_that_dies_is_reported_when_the_workload_stops() -> None:
    workload = shop.Workload("host=/nonexistent dbname=none connect_timeout=2")
    workload.start()

    with pytest.raises(psycopg.OperationalError):
        workload.stop()
