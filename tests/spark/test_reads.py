"""A refresh that looks up only the rows a change reaches gives what PostgreSQL gives, before and after a publish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import penstock
from penstock.catalog import relations
from penstock.catalog.relations import Relation
from penstock.lake import folding, partial_state
from penstock.lake.reader import Reader
from penstock.refresh import reads

SCHEMA = """
    CREATE TABLE region (id int PRIMARY KEY, name text);
    CREATE TABLE customer (id int PRIMARY KEY, city text, region_id int);
    CREATE TABLE orders (id int PRIMARY KEY, customer_id int, amount numeric(10,2));
    INSERT INTO region SELECT i, 'region ' || i FROM generate_series(1, 5) i;
    INSERT INTO customer SELECT i, 'city ' || i % 7, nullif(i % 6, 0) FROM generate_series(1, 60) i;
    INSERT INTO orders SELECT i, nullif(i % 70, 0), i % 13 FROM generate_series(1, 900) i;
"""
VIEWS = {
    "by_region": """SELECT r.name, count(*) AS n, sum(o.amount) AS total, max(o.amount) AS top FROM orders o
                    JOIN customer c ON c.id = o.customer_id JOIN region r ON r.id = c.region_id GROUP BY r.name""",
    "largest": "SELECT customer_id, max(amount) AS top, min(id) AS first FROM orders GROUP BY customer_id",
    "namesakes": "SELECT a.id, b.id AS other FROM customer a JOIN customer b ON a.city = b.city AND a.id < b.id",
}
CHANGES = [
    "UPDATE customer SET city = 'moved', region_id = 2 WHERE id IN (3, 7)",
    "UPDATE orders SET amount = amount + 1 WHERE id % 50 = 0; DELETE FROM orders WHERE id % 90 = 7",
    "UPDATE region SET name = 'north' WHERE id = 4; DELETE FROM customer WHERE id = 10; "
    "INSERT INTO orders VALUES (2001, 7, 99), (2002, NULL, 5), (2003, 11, NULL)",
    "UPDATE customer SET id = 1000 + id WHERE id = 12; UPDATE orders SET customer_id = 1012 WHERE customer_id = 12; "
    "DELETE FROM orders WHERE customer_id = 7; INSERT INTO customer VALUES (10, 'city 1', 4)",
]


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The relations of which only some rows were read."""
    found: list[str] = []

    def spy(reader: Reader, relation: Relation, position: int, columns: Sequence[str], wanted: Any) -> pa.Table | None:
        rows = partial_state.partial_state(reader, relation, position, columns, wanted)
        if rows is not None:
            found.append(relation.name.rpartition(".")[2])
        return rows

    monkeypatch.setattr(reads, "partial_state", spy)
    return found


def test_views_from_reached_rows_equal_postgres(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch, looked_up: list[str]
) -> None:
    monkeypatch.setattr(folding, "OVERWRITE", folding.Cost(1e9, 0, 0))  # merge into the tables, so that rows are hidden
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute(SCHEMA)
        ps.add_source("shop", source_db, tables=["public.*"])
        for name, query in VIEWS.items():
            ps.create_stream_table(name, query, mode="DIFFERENTIAL")
        for name in ("customer", "orders"):
            ps.publish(name)
        ps.refresh_all()
        for place, change in enumerate(CHANGES):
            source.execute(change)
            ps.catch_up()
            ps.refresh_all()
            if place == 2:
                assert ps.publish("orders").how == "merged"
        assert ps.verify("shop").ok
    assert {"orders", "customer"} <= set(looked_up)


def test_above_the_limits_spark_reads_the_state(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch, looked_up: list[str]
) -> None:
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute(SCHEMA)
        ps.add_source("shop", source_db, tables=["public.*"])
        query = "SELECT c.city, count(*) AS n FROM orders o JOIN customer c ON c.id = o.customer_id GROUP BY c.city"
        ps.create_stream_table("by_city", query, mode="DIFFERENTIAL")
        ps.publish("orders")
        ps.refresh_all()
        monkeypatch.setattr(partial_state, "SCANNED", 899)
        source.execute(CHANGES[0])
        ps.catch_up()
        ps.refresh_all()
        assert "orders" not in looked_up
        monkeypatch.setattr(partial_state, "SCANNED", 900)
        source.execute("UPDATE customer SET city = 'again' WHERE id = 3")
        ps.catch_up()
        ps.refresh_all()
        assert "orders" in looked_up
        assert ps.verify("shop").ok


def test_a_frame_has_the_rows_of_all_chunks(ps: penstock.Session, source_db: str) -> None:
    """Spark's own reading of Arrow data ends at a chunk without rows."""
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute(SCHEMA)
    ps.add_source("shop", source_db, tables=["region"])
    relation = relations.find(ps.catalog, "region")
    one = pa.table({"id": pa.array([1, 2], pa.int32()), "_weight": pa.array([1, 1], pa.int64())})
    rows = pa.concat_tables([one, one.slice(0, 0), one])
    assert ps.engine.reader.frame(rows, relation, ["id"]).count() == 4


LINES = """
    CREATE TABLE basket (id int PRIMARY KEY, shop text);
    CREATE TABLE line (id int PRIMARY KEY, basket_id int REFERENCES basket DEFERRABLE, amount int);
    INSERT INTO basket SELECT i, 'shop ' || i % 3 FROM generate_series(1, 50) i;
    INSERT INTO line SELECT i, 1 + i % 50, i FROM generate_series(1, 500) i;
"""
BASKETS = (
    "INSERT INTO basket VALUES (101, 'shop 1'), (102, 'new'); INSERT INTO line VALUES (1001, 101, 7), (1002, 101, 8)",
    "DELETE FROM line WHERE basket_id = 5; DELETE FROM basket WHERE id = 5; INSERT INTO line VALUES (1003, 102, 1)",
)


def test_lines_of_new_and_removed_baskets_are_known_from_the_foreign_key(
    ps: penstock.Session, source_db: str, looked_up: list[str]
) -> None:
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute(LINES)
        ps.add_source("shop", source_db, tables=["public.*"])
        query = "SELECT b.shop, sum(l.amount) AS total FROM basket b JOIN line l ON l.basket_id = b.id GROUP BY b.shop"
        ps.create_stream_table("by_shop", query, mode="DIFFERENTIAL")
        ps.publish("line")

        def refreshed(change: str) -> bool:
            """Whether lines were looked up."""
            source.execute(change)
            ps.catch_up()
            looked_up.clear()
            ps.refresh("by_shop")
            return "line" in looked_up

        refreshed("SELECT 1")
        refreshed("INSERT INTO basket VALUES (60, 'shop 1')")  # the key is seen from here on
        assert [refreshed(change) for change in BASKETS] == [False, False]
        assert refreshed("UPDATE basket SET shop = 'moved' WHERE id = 7; INSERT INTO basket VALUES (103, 'x')")
        assert ps.verify("shop").ok
        # Lines without a basket: whoever turns the check off is seen, and the line of basket 200 is looked up.
        source.execute("ALTER TABLE line DISABLE TRIGGER ALL; INSERT INTO line VALUES (2000, 200, 5)")
        assert refreshed("INSERT INTO line VALUES (2001, 200, 6)") is False
        assert refreshed("ALTER TABLE line ENABLE TRIGGER ALL; INSERT INTO basket VALUES (200, 'late')")
        assert ps.verify("shop").ok
