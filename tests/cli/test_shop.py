"""The demo's shop stays consistent in PostgreSQL, whatever order its writers come in."""

from __future__ import annotations

import random
import time
from typing import LiteralString

import psycopg
import pytest

from penstock.demo import shop

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


@pytest.fixture
def connection(source_db: str):
    with psycopg.connect(source_db, autocommit=True) as connection:
        shop.create(connection)
        yield connection


def test_a_new_shop_is_consistent_and_has_all_its_rows(connection: shop.Connection) -> None:
    counts = {table: len(found) for table, found in rows(connection).items()}

    assert broken(connection) == {}
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


def test_concurrent_writers_keep_the_shop_consistent(connection: shop.Connection, source_db: str) -> None:
    workload = shop.Workload(source_db, rate=300, writers=3)
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
