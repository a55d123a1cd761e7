"""A foreign key counts only between the cuts where it was seen, unchanged, with nothing that could get around it; a
table's own key where the table had one shape."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

import penstock
from penstock.capture import key_sightings
from penstock.capture.connection import connect
from penstock.capture.held_keys import held_keys
from penstock.capture.key_sightings import KeySightings
from penstock.catalog import foreign_keys, relations, sources
from penstock.catalog.foreign_keys import Sighting
from penstock.errors import PenstockError
from penstock.refresh.keys_that_hold import keys_that_hold
from penstock.refresh.known_rows import Key, OwnKey, ParentKey
from penstock.relation.schema import ForeignKey

pytestmark = pytest.mark.since(11, "a source needs no option about TRUNCATE")

TABLES = ["public.orders", "public.lines"]
KEY = ForeignKey(("order_id",), "public.orders", ("id",))
MAKE_KEY = "ALTER TABLE lines ADD CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES orders"


@pytest.fixture
def source(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, at date)")
        connection.execute("CREATE TABLE lines (id int PRIMARY KEY, order_id int, amount int)")
        connection.execute(MAKE_KEY)
        yield connection


def seen(dsn: str) -> list[Sighting]:
    with connect(dsn) as connection:
        return held_keys(connection, TABLES)


def test_a_key_is_seen(source: psycopg.Connection[Any], source_db: str) -> None:
    (first,) = seen(source_db)
    (again,) = seen(source_db)
    assert (first.child, first.key) == ("public.lines", KEY)
    assert first.identity == again.identity
    assert first.until <= first.since <= again.until


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE lines DROP CONSTRAINT of_order",
        "ALTER TABLE lines DROP CONSTRAINT of_order; " + MAKE_KEY + " NOT VALID",
        "ALTER TABLE lines DISABLE TRIGGER ALL",
        "ALTER TABLE orders DISABLE TRIGGER ALL",
        "ALTER TABLE orders RENAME TO old_orders",
        "CREATE SUBSCRIPTION s CONNECTION 'dbname=none' PUBLICATION p "
        "WITH (connect = false, enabled = false, slot_name = NONE)",
    ],
)
def test_what_may_not_hold_is_not_seen(source: psycopg.Connection[Any], source_db: str, statement: str) -> None:
    source.execute(statement)
    assert seen(source_db) == []
    if "SUBSCRIPTION" in statement:
        source.execute("DROP SUBSCRIPTION s")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE lines DISABLE TRIGGER ALL; ALTER TABLE lines ENABLE TRIGGER ALL",
        "ALTER TABLE lines DROP CONSTRAINT of_order; " + MAKE_KEY,
        "ALTER TABLE lines ALTER CONSTRAINT of_order DEFERRABLE",
    ],
)
def test_a_key_that_was_touched_is_another_one(source: psycopg.Connection[Any], source_db: str, statement: str) -> None:
    (before,) = seen(source_db)
    source.execute(statement)
    (after,) = seen(source_db)
    assert before.identity != after.identity


@pytest.mark.parametrize("statement", ["ALTER TABLE lines DISABLE TRIGGER ALL", "ALTER TABLE orders ADD COLUMN c int"])
def test_under_a_strong_lock_it_is_not_seen(source: psycopg.Connection[Any], source_db: str, statement: str) -> None:
    """Whoever holds it may have written the commit already that makes the key void."""
    with psycopg.connect(source_db) as other:
        other.execute(statement)
        assert seen(source_db) == []
        other.rollback()
        assert len(seen(source_db)) == 1


@pytest.mark.since(12, "texts may be equal by other rules than their bytes")
def test_texts_that_equal_others_do_not_count(source: psycopg.Connection[Any], source_db: str) -> None:
    source.execute(
        "CREATE COLLATION loose (locale = 'C');"
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'loose';"  # not every build has ICU
        "ALTER TABLE lines DROP CONSTRAINT of_order;"
        "ALTER TABLE orders ALTER COLUMN id TYPE text COLLATE loose;"
        "ALTER TABLE lines ALTER COLUMN order_id TYPE text COLLATE loose;" + MAKE_KEY
    )
    assert seen(source_db) == []


class Cuts:
    """Statements, each captured up to a cut of its own; how many keys a refresh between the last two may rely on."""

    def __init__(self, ps: penstock.Session, source: psycopg.Connection[Any]) -> None:
        self._ps = ps
        self._source = source
        self.passed = [0]

    def step(self, *statements: str) -> int:
        return sum(isinstance(key, ParentKey) for key in self.keys(*statements))

    def keys(self, *statements: str) -> list[Key]:
        for statement in statements:
            self._source.execute(statement)
        self._ps.engine.captures.catch_up("shop")
        self.passed.append(int(sources.get(self._ps.catalog, "shop").captured or 0))
        known = relations.of_source(self._ps.catalog, "shop")
        return keys_that_hold(
            partial(foreign_keys.holding, self._ps.catalog), [(one, *self.passed[-2:]) for one in known]
        )


def test_capture_notes_the_keys(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    step = Cuts(ps, source).step
    assert step("INSERT INTO orders VALUES (1)") == 0  # not seen before
    step("INSERT INTO orders VALUES (2)")
    assert step("INSERT INTO orders VALUES (3)") == 1
    assert step("ALTER TABLE lines DISABLE TRIGGER ALL", "INSERT INTO lines VALUES (1, 9)") == 0
    assert step("DELETE FROM lines", "ALTER TABLE lines ENABLE TRIGGER ALL") == 0
    step("INSERT INTO orders VALUES (4)")
    assert step("INSERT INTO orders VALUES (5)") == 1
    toggled = "ALTER TABLE lines DISABLE TRIGGER ALL; ALTER TABLE lines ENABLE TRIGGER ALL"
    assert step("INSERT INTO orders VALUES (6)", toggled) == 0


def test_its_own_key_counts_where_a_table_has_one_shape(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str
) -> None:
    """In an earlier shape the key may have been another one."""
    ps.add_source("shop", source_db, tables=["public.*"])
    cuts = Cuts(ps, source)
    orders, of_lines = OwnKey("shop.public.orders", ("id",)), OwnKey("shop.public.lines", ("id",))
    assert {orders, of_lines} <= set(cuts.keys("INSERT INTO orders VALUES (1)"))
    found = cuts.keys("ALTER TABLE orders ADD COLUMN note text", "INSERT INTO orders VALUES (2)")
    assert of_lines in found
    assert orders not in found
    assert orders in cuts.keys("INSERT INTO orders VALUES (3)")


def test_keys_can_be_distrusted(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["public.*"], trust_foreign_keys=False)
    cuts = Cuts(ps, source)
    for number in range(3):
        assert cuts.step(f"INSERT INTO orders VALUES ({number})") == 0
    assert foreign_keys.holding(ps.catalog, "shop", cuts.passed[-1], cuts.passed[-1]) == []


@pytest.mark.since(15, "row filters")
def test_rows_left_out_make_a_key_worthless(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str
) -> None:
    source.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    ps.add_source("shop", source_db, tables=["public.*"], publication_row_filter={"orders": "id > 1"})
    cuts = Cuts(ps, source)
    for number in range(3):
        assert cuts.step(f"INSERT INTO lines VALUES ({number})") == 0


def test_looks_leave_nothing_open(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.engine.captures.close()
    before = len(ps.catalog._opened)
    looks = KeySightings(ps.catalog)
    (found,) = looks.look(sources.get(ps.catalog, "shop")).result() or []
    assert (found.child, found.key) == ("public.lines", KEY)
    assert len(ps.catalog._opened) == before + 1
    for _ in range(2):
        looks.close()
        assert len(ps.catalog._opened) == before
    asking = source.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_locks%' AND pid <> pg_backend_pid()"
    )
    assert asking.fetchone() == (0,)


def test_a_look_that_hangs_is_given_up(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    hanging = threading.Event()

    def hang(connection: Any, tables: Any) -> list[Sighting]:
        hanging.set()
        connection.execute("SELECT pg_sleep(60)")
        return []

    monkeypatch.setattr(key_sightings, "held_keys", hang)
    looks = KeySightings(ps.catalog)
    look = looks.look(sources.get(ps.catalog, "shop"))
    assert hanging.wait(10)
    time.sleep(0.1)
    looks.close()
    with pytest.raises(PenstockError):
        look.result(timeout=10)
