"""Verify tells exactly what differs, at one LSN, without Spark for tables, and whatever the source does meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from wrong_rows import put

import penstock
from penstock.errors import SourceError
from penstock.refresh import source_side, verify
from penstock.refresh.scheduled_verify import ScheduledVerification

Db = psycopg.Connection[Any]
pytestmark = pytest.mark.since(11, "TRUNCATE in the stream")


@pytest.fixture
def db(source_db: str) -> Iterator[Db]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2), w text)")
        connection.execute("INSERT INTO t SELECT i, i, 'w' || i FROM generate_series(1, 3000) i")
        connection.execute("CREATE TABLE bag (x int, y text); ALTER TABLE bag REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO bag SELECT i % 3, NULL FROM generate_series(1, 30) i")
        yield connection


@pytest.fixture
def shop(ps: penstock.Session, db: Db, source_db: str) -> penstock.Session:
    ps.add_source("shop", source_db, tables=["public.*"])
    return ps


def row(number: int, **changed: Any) -> dict[str, Any]:
    """A row of t."""
    return {"id": number, "v": Decimal(number), "w": f"w{number}"} | changed


def test_what_is_equal(shop: penstock.Session, db: Db) -> None:
    seen: list[tuple[str, int]] = []
    outcome = shop.verify(progress=lambda name, rows: seen.append((name, rows)))
    assert outcome.ok, str(outcome)
    assert outcome.rows == {"shop.public.t": 3000, "shop.public.bag": 30}
    assert sum(rows for name, rows in seen if name == "shop.public.t") == 3000
    db.execute("UPDATE t SET v = -v, id = id + 5000 WHERE id % 7 = 0; DELETE FROM t WHERE id < 100; DELETE FROM bag")
    outcome = shop.verify("t")
    assert outcome.ok, str(outcome)
    assert list(outcome.rows) == ["shop.public.t"]


def test_rows_that_differ_are_named_with_both_images(shop: penstock.Session) -> None:
    put(
        shop,
        "t",
        [
            (row(17), -1),
            (row(17, v=Decimal("99.50")), 1),
            (row(18), -1),
            (row(18, w=None), 1),
            (row(7777), 1),
            (row(2000), -1),
        ],
    )
    outcome = shop.verify("shop")
    assert not outcome.ok
    (found,) = outcome.differences
    assert (found.relation, found.count, found.complete) == ("shop.public.t", 4, True)
    assert set(found.keys) == {(17,), (18,), (2000,), (7777,)}
    assert "id=17: v is Decimal('17.00') in the source, Decimal('99.50') in the lake" in str(found)
    assert "id=18: w is 'w18' in the source, None in the lake" in str(found)
    assert "id=2000: in the source only: (2000, Decimal('2000.00'), 'w2000')" in str(found)
    assert "id=7777: in the lake only:" in str(found)


def test_a_number_of_copies_differs_and_a_row_taken_away_twice(shop: penstock.Session) -> None:
    put(shop, "bag", [({"x": 1, "y": None}, -2), ({"x": 2, "y": None}, -1), ({"x": 1, "y": "never there"}, -1)])
    (found,) = shop.verify("bag").differences
    assert Counter(found.missing) == Counter({(1, None): 2, (2, None): 1, (1, "never there"): 1})
    assert found.extra == ()
    assert found.count == 4


def test_rows_are_put_right_and_the_source_goes_on(shop: penstock.Session, db: Db) -> None:
    put(shop, "t", [(row(17), -1), (row(17, v=Decimal("99.50")), 1), (row(18), -1), (row(7777), 1)])
    put(shop, "bag", [({"x": 1, "y": None}, -2), ({"x": 1, "y": "never there"}, -1)])
    outcome = shop.verify(repair=True)
    assert outcome.ok, str(outcome)
    assert outcome.repaired == {
        "shop.public.t": "corrected: 2 rows put in, 2 taken out",
        "shop.public.bag": "corrected: 3 rows put in, 0 taken out",
    }
    assert not shop.verify().differences
    db.execute(
        "UPDATE t SET v = v + 1 WHERE id IN (17, 18, 19); DELETE FROM bag WHERE x = 1; INSERT INTO t VALUES (7777)"
    )
    outcome = shop.verify()
    assert not outcome.differences
    assert outcome.rows == {"shop.public.t": 3001, "shop.public.bag": 20}


def test_a_row_that_changed_since_it_was_found_wrong_is_not_corrected(
    shop: penstock.Session, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change took the wrong image away, and a correction would take it away again: the table is copied."""
    put(shop, "t", [(row(17), -1), (row(17, v=Decimal("99.50")), 1)])
    compare = verify._Comparing.compare

    def changed(self: Any, relation: Any) -> Any:
        found = compare(self, relation)
        if relation.name == "shop.public.t" and found[1] is not None:
            db.execute("UPDATE t SET w = 'changed' WHERE id = 17")
            shop.catch_up()
        return found

    monkeypatch.setattr(verify._Comparing, "compare", changed)
    outcome = shop.verify("t", repair=True)
    assert outcome.ok, str(outcome)
    assert outcome.repaired == {"shop.public.t": "copied again"}


def test_a_table_that_is_truncated_while_it_is_read_is_looked_at_again(
    shop: penstock.Session, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the first snapshot it has 3,000 rows here and looks empty there: the snapshot cannot see the old file."""
    snapshots: list[int] = []
    reach = verify._reach

    def truncated(engine: Any, frontier: Any, *, capture: bool) -> None:
        reach(engine, frontier, capture=capture)
        if not snapshots:
            db.execute("TRUNCATE t; INSERT INTO t VALUES (1, 1, 'new')")
        snapshots.append(frontier["shop"])

    monkeypatch.setattr(verify, "_reach", truncated)
    outcome = shop.verify()
    assert outcome.ok, str(outcome)
    assert len(snapshots) == 2
    assert outcome.rows["shop.public.t"] == 1
    assert outcome.frontier["shop"] == snapshots[1]


def test_a_table_that_is_always_rewritten_is_not_called_different(
    shop: penstock.Session, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = verify._reach

    def truncated(engine: Any, frontier: Any, *, capture: bool) -> None:
        reach(engine, frontier, capture=capture)
        db.execute("TRUNCATE t; INSERT INTO t VALUES (1, 1, 'new')")

    monkeypatch.setattr(verify, "_reach", truncated)
    with pytest.raises(SourceError, match=r"shop\.public\.t cannot be compared: each time it was truncated"):
        shop.verify("t")


@pytest.mark.since(15, "row filters")
def test_ranges_of_a_partitioned_table_and_a_row_filter(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_side, "_RANGE_BYTES", 3 * 8192)
    db.execute("CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    db.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (2000)")
    db.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (2000) TO (9000)")
    db.execute(
        "INSERT INTO p SELECT i, repeat('x', i % 50) FROM generate_series(1, 5000) i; DELETE FROM p WHERE id < 900"
    )
    ps.add_source("shop", source_db, tables=["t", "p"], publication_row_filter={"public.t": "id % 2 = 0"})
    seen: list[str] = []
    outcome = ps.verify(progress=lambda name, rows: seen.append(name))
    assert outcome.ok, str(outcome)
    assert outcome.rows == {"shop.public.p": 4101, "shop.public.t": 1500}
    assert seen.count("shop.public.p") > 3
    put(ps, "p", [({"id": 2345, "v": "x" * 45}, -1)])
    assert len(ps.verify("p").differences[0].missing) == 1


def test_it_waits_for_the_process_that_captures(shop: penstock.Session, db: Db, tmp_path: Any, catalog_db: str) -> None:
    shop.engine.captures.close()
    stop = threading.Event()

    def run() -> None:
        with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as other:
            while not stop.wait(0.1):
                other.catch_up()

    other = threading.Thread(target=run)
    other.start()
    try:
        db.execute("UPDATE t SET v = 0 WHERE id < 50")
        stop.wait(1)
        assert shop.verify().ok
    finally:
        stop.set()
        other.join()


def test_no_lock_outlives_a_range(shop: penstock.Session, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two tables an ALTER gets its lock at once."""
    compare = verify._Comparing.compare

    def altered(self: Any, relation: Any) -> Any:
        found = compare(self, relation)
        db.execute("SET lock_timeout = '100ms'; ALTER TABLE bag SET (fillfactor = 90)")
        return found

    monkeypatch.setattr(verify._Comparing, "compare", altered)
    assert shop.verify().ok


def test_a_schedule_verifies_beside_the_capture_and_keeps_its_history(
    ps: penstock.Session, db: Db, source_db: str, tmp_path: Any, catalog_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    put(ps, "bag", [({"x": 1, "y": None}, -1)])
    ps.engine.captures.close()
    config = {"verify_interval": 1, "publish_interval": 1e9}
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db, config=config) as other:
        scheduled = ScheduledVerification(other.engine)
        deadline = time.monotonic() + 60
        while len(ps.verify_history()) < 2:
            db.execute("UPDATE t SET v = v + 1 WHERE id = 5")
            other.catch_up()
            scheduled.tick()
            assert time.monotonic() < deadline
    newest, first = ps.verify_history()
    assert first.scheduled
    assert (first.differences, first.ok, first.error) == ({"shop.public.bag": 1}, False, None)
    assert first.rows == {"shop.public.bag": 29, "shop.public.t": 3000}
    assert newest.frontier is not None
    assert first.frontier is not None
    assert newest.frontier["shop"] > first.frontier["shop"]


def test_the_pin_of_a_killed_verify_goes_with_it(shop: penstock.Session, catalog_db: str) -> None:
    frontier = shop.frontier()
    kept = shop.pin(frontier)
    code = (
        "import os, sys; import penstock; from penstock.catalog import pins; from penstock.refresh import verify; "
        "verify._reach = lambda *a, **k: (print('pinned', flush=True), sys.stdin.read()); "
        f"penstock.connect(home={str(shop.home.root)!r}, catalog={catalog_db!r}).verify()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"pinned\n"
        assert len(shop.pins()) == 2
        shop.maintain()
        assert len(shop.pins()) == 2  # it lives
    finally:
        process.kill()
        process.wait()
    deadline = time.monotonic() + 30
    while len(shop.pins()) > 1:  # the server notices that the connection is gone
        assert time.monotonic() < deadline
        shop.maintain()
    assert [one.id for one in shop.pins()] == [kept]
