"""Stream tables equal PostgreSQL's own answer at every frontier, whatever the replica identity, and are never torn."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.errors import ConfigError, NotRetained, RefreshError, StorageFull
from penstock.lake import partial_state, reader
from penstock.refresh import compute, decision, table_refresh

SCHEMA = """
    CREATE TABLE customer (id int PRIMARY KEY, city text, vip boolean NOT NULL);
    CREATE TABLE orders (id int PRIMARY KEY, customer_id int REFERENCES customer ON DELETE CASCADE, note text);
    CREATE TABLE line (order_id int REFERENCES orders ON DELETE CASCADE, n int, amount numeric(10,2), weight float8,
                       PRIMARY KEY (order_id, n));
"""
VIEWS = {
    "vip_orders": "SELECT o.id, c.city, o.note FROM orders o JOIN customer c ON c.id = o.customer_id WHERE c.vip",
    "by_city": """SELECT c.city, count(*) AS lines, count(l.amount) AS priced, sum(l.amount) AS total,
                         avg(l.amount) AS mean, min(l.n) AS first, max(l.amount) AS top, sum(l.weight) AS kilos
                  FROM line l JOIN orders o ON o.id = l.order_id JOIN customer c ON c.id = o.customer_id
                  GROUP BY c.city""",
    "rich": "SELECT city, total FROM by_city WHERE total > 100",
    "everything": "WITH t AS (SELECT sum(total) AS total, count(*) AS cities FROM by_city) SELECT * FROM t",
    "ids": "SELECT id FROM customer UNION ALL SELECT customer_id FROM orders",
}


class Shop:
    """Transactions over three tables, the same for the same seed."""

    def __init__(self, dsn: str, seed: int, identity: str = "DEFAULT") -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute(SCHEMA)
        for table in ("customer", "orders", "line"):
            self.connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}")
        self.random = random.Random(seed)
        self.next = 1

    def transaction(self) -> None:
        r, run = self.random, self.connection.execute
        with self.connection.transaction():
            match r.randint(0, 5):
                case 0:
                    run("INSERT INTO customer VALUES (%s, %s, %s)", (self.next, self.city(), r.random() < 0.5))
                case 1 | 2:
                    self.order()
                case 3:
                    run("UPDATE customer SET city = %s WHERE id %% 5 = %s", (self.city(), r.randint(0, 4)))
                case 4:
                    run("DELETE FROM orders WHERE id %% 6 = %s", (r.randint(0, 5),))
                case 5:
                    run("UPDATE line SET amount = amount * 2, weight = NULL WHERE n = %s", (r.randint(1, 3),))
        self.next += 1

    def order(self) -> None:
        r, run = self.random, self.connection.execute
        run("INSERT INTO customer VALUES (%s, %s, true)", (self.next, self.city()))
        run("INSERT INTO orders VALUES (%s, %s, %s)", (self.next, self.next, r.choice([None, "a", ""])))
        for n in range(1, r.randint(2, 4)):
            amount = r.choice([None, r.randint(0, 9999) / 100])
            run("INSERT INTO line VALUES (%s, %s, %s, %s)", (self.next, n, amount, r.choice([None, 0.1, 2.5])))

    def city(self) -> str | None:
        return self.random.choice([None, "Oslo", "Bern", "Wien"])


def rows_of(ps: penstock.Session, name: str) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in ps.table(name).toArrow().to_pylist())


@pytest.mark.parametrize("identity", ["DEFAULT", pytest.param("FULL", marks=pytest.mark.matrix)])
def test_views_equal_postgres_whatever_the_replica_identity(
    ps: penstock.Session, source_db: str, identity: str
) -> None:
    shop = Shop(source_db, seed=11, identity=identity)
    for _ in range(15):
        shop.transaction()
    ps.add_source("shop", source_db, tables=["public.*"])
    for name, query in VIEWS.items():
        ps.create_stream_table(name, query, mode="DIFFERENTIAL")
    ps.refresh_all()
    for _ in range(20):
        shop.transaction()
    ps.catch_up()
    ps.refresh_all()
    ps.publish("orders")
    for _ in range(12):
        shop.transaction()
    ps.catch_up()
    ps.publish("orders")  # the views are behind its base now: their state before is the base less the changes
    shop.transaction()
    outcome = ps.verify("shop")
    assert outcome.ok, str(outcome)
    assert set(outcome.rows) > set(VIEWS)
    assert {line.action for line in ps.history("by_city")} <= {"FULL", "DIFFERENTIAL", "NO_DATA"}
    assert ps.history("by_city")[-1].action == "FULL"


def test_a_full_refresh_yields_the_same_changes_as_a_differential_one(ps: penstock.Session, source_db: str) -> None:
    shop = Shop(source_db, seed=5)
    for _ in range(10):
        shop.transaction()
    ps.add_source("shop", source_db, tables=["public.*"])
    for mode in ("FULL", "DIFFERENTIAL"):
        ps.create_stream_table(f"by_city_{mode.lower()}", VIEWS["by_city"], mode=mode)
    ps.create_stream_table("over_full", "SELECT city, lines FROM by_city_full", mode="DIFFERENTIAL")
    start = ps.refresh_all()["by_city_full"].frontier
    shop.order()
    ps.catch_up()
    done = ps.refresh_all()
    assert done["by_city_full"].action == "FULL"
    assert done["by_city_differential"].action == done["over_full"].action == "DIFFERENTIAL"
    changes = [
        Counter(tuple(row.values()) for row in ps.changes(name, since=start).toArrow().to_pylist())
        for name in ("by_city_full", "by_city_differential")
    ]
    assert changes[0] == changes[1]
    assert sum(changes[0].values()) <= 2  # one city changed: its old row and its new one
    assert done["by_city_full"].inserted == done["by_city_differential"].inserted == 1


def test_a_file_that_cannot_be_made_durable_fails_its_refresh(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(source_db, seed=9)
    for _ in range(5):
        shop.transaction()
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("by_city", VIEWS["by_city"])
    ps.refresh_all()
    before = Counter(ps.table("by_city").collect())
    shop.order()
    ps.catch_up()

    def full(path: Path) -> Future[None]:
        failed: Future[None] = Future()
        failed.set_exception(StorageFull(f"no room to write {path}"))
        return failed

    with monkeypatch.context() as patched:
        patched.setattr(ps.engine.workers, "make_durable", full)
        with pytest.raises(StorageFull, match="no room"):
            ps.refresh("by_city")
    assert Counter(ps.table("by_city").collect()) == before
    assert "no room" in str(ps.history("by_city")[0].error)
    assert ps.refresh("by_city").action == "DIFFERENTIAL"
    outcome = ps.verify("shop")
    assert outcome.ok, str(outcome)


def test_changes_of_many_rows_are_left_to_spark(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is few: changes and states are scanned from files, and Spark writes what comes out."""
    monkeypatch.setattr(reader, "SMALL", 0)
    for module in (compute, partial_state):
        monkeypatch.setattr(module, "GATHERED", 0)
    shop = Shop(source_db, seed=7)
    for _ in range(10):
        shop.transaction()
    ps.add_source("shop", source_db, tables=["public.*"])
    for name in ("vip_orders", "by_city"):
        ps.create_stream_table(name, VIEWS[name], mode="DIFFERENTIAL")
    ps.refresh_all()
    for _ in range(2):
        for _ in range(6):
            shop.transaction()
        ps.catch_up()
        assert {one.action for one in ps.refresh_all().values()} == {"DIFFERENTIAL"}
    assert ps.refresh("by_city", full=True).action == "REINITIALIZE"
    outcome = ps.verify("shop")
    assert outcome.ok, str(outcome)


def test_auto_computes_nothing_anew_for_changes_that_it_cannot_see(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision, "FEW_ROWS", 0)
    monkeypatch.setattr(decision, "VERY_FEW_ROWS", 0)
    monkeypatch.setattr(table_refresh, "VERY_FEW_ROWS", 0)
    shop = Shop(source_db, seed=3)
    for _ in range(5):
        shop.order()
        shop.next += 1
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("totals", "SELECT order_id, sum(amount) AS total FROM line GROUP BY order_id")
    ps.refresh_all()
    for change, action in (("weight = 7", "NO_DATA"), ("amount = 7", "FULL")):
        shop.connection.execute(f"UPDATE line SET {change}".encode())
        ps.catch_up()
        assert ps.refresh_all()["totals"].action == action
    outcome = ps.verify("shop")
    assert outcome.ok, str(outcome)


def test_a_transaction_over_three_tables_is_never_visible_in_part(ps: penstock.Session, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as admin:
        admin.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
        admin.execute("CREATE TABLE c (id int PRIMARY KEY)")
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("all_three", "SELECT a.id FROM a JOIN b ON b.id = a.id JOIN c ON c.id = b.id")
    ps.create_stream_table("total", "SELECT count(*) AS n FROM all_three")
    sizes = []
    with writing(source_db):
        for _ in range(3):
            frontier = ps.catch_up()
            ps.refresh("total", to=frontier)
            ids = _ids(ps, ["a", "b", "c", "all_three"], frontier)
            assert ids["a"] == ids["b"] == ids["c"] == ids["all_three"]
            (count,) = (row["n"] for row in ps.table("total", at=frontier).collect())
            assert count == len(ids["a"])
            sizes.append(count)
    assert sizes[-1] > sizes[0], "nothing was written meanwhile"


def _ids(ps: penstock.Session, names: list[str], at: penstock.Frontier) -> dict[str, set[int]]:
    """By one query of Spark."""
    frames = [ps.table(name, at=at).selectExpr("id", f"'{name}' AS name") for name in names]
    rows = reduce(DataFrame.unionAll, frames).collect()
    return {name: {row["id"] for row in rows if row["name"] == name} for name in names}


@contextmanager
def writing(dsn: str) -> Iterator[None]:
    """Transactions over three tables, all the while, some of them rolled back half-way."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            number = 0
            while not stop.is_set():
                number += 1
                with connection.transaction(force_rollback=number % 5 == 0):
                    for table in ("a", "b", "c"):
                        connection.execute(f"INSERT INTO {table} VALUES (%s)", (number,))
                        if number % 3 == 0:
                            connection.execute(f"DELETE FROM {table} WHERE id = %s", (number - 2,))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_nothing_to_do_runs_no_spark_job(ps: penstock.Session, source_db: str, spark: SparkSession) -> None:
    shop = Shop(source_db, seed=1)
    shop.order()
    shop.connection.execute("CREATE TABLE other (id int PRIMARY KEY)")
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("vip_orders", VIEWS["vip_orders"])
    ps.refresh("vip_orders")

    with no_spark_job(spark):
        assert ps.refresh("vip_orders").action == "NO_DATA"

        shop.connection.execute("INSERT INTO other VALUES (1)")
        frontier = ps.catch_up()
        done = ps.refresh("vip_orders")
        assert (done.action, done.reason, done.frontier) == ("NO_DATA", "no input changed", frontier)

        shop.connection.execute("UPDATE customer SET id = id")
        ps.catch_up()
        done = ps.refresh("vip_orders")
        assert (done.action, done.reason) == ("NO_DATA", "no change that the view can see")


@contextmanager
def no_spark_job(spark: SparkSession) -> Iterator[None]:
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    yield
    assert set(tracker.getJobIdsForGroup(None)) == before


def test_a_failing_query_leaves_the_view_where_it_was(ps: penstock.Session, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 5)")
        ps.add_source("shop", source_db, tables=["t"])
        ps.create_stream_table("inverse", "SELECT id, 100 / v AS x FROM t")
        first = ps.refresh("inverse").frontier
        connection.execute("INSERT INTO t VALUES (2, 0)")
        ps.catch_up()
        with pytest.raises(RefreshError, match=r"inverse could not be refreshed.*(?i:zero)"):
            ps.refresh("inverse")
        assert rows_of(ps, "inverse") == Counter({(1, 20): 1})
        assert ps.history("inverse")[0].error is not None
        connection.execute("DELETE FROM t WHERE id = 2")
        ps.catch_up()
        assert ps.refresh("inverse").frontier > first


def test_reading_what_is_not_there_yet_says_what_to_do(ps: penstock.Session, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    ps.add_source("shop", source_db, tables=["t"])
    ps.create_stream_table("v", "SELECT id FROM t")
    with pytest.raises(ConfigError, match="never refreshed"):
        ps.table("v")
    ps.refresh("v")
    far = penstock.Frontier(shop=1 << 50)
    for call in (ps.table, ps.refresh):
        with pytest.raises(NotRetained):
            call("v", far)
