"""A captured root has the rows that it has in PostgreSQL, whatever is done to its partitions as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import penstock
from penstock.capture import changed_tables
from penstock.catalog import relations
from penstock.errors import SchemaChanged

pytestmark = pytest.mark.since(13, "a partitioned table is published as one")
Db = psycopg.Connection[Any]

FILL = "INSERT INTO t SELECT i, 1 + i % 3, 'again' FROM generate_series(1, 60) i ON CONFLICT DO NOTHING"
LOOSE = "CREATE TABLE t4 (id int NOT NULL, p int NOT NULL, a text, PRIMARY KEY (id, p))"
CHANGES = {
    "truncated": "TRUNCATE t2",
    "truncated, keys used again": f"TRUNCATE t2; {FILL}",
    "truncated and vacuumed": "TRUNCATE t2; VACUUM FULL t2",
    "branch truncated": "TRUNCATE m",
    "root truncated": f"TRUNCATE t; {FILL}",
    "dropped": "DROP TABLE t2",
    "detached": "ALTER TABLE t DETACH PARTITION t2; INSERT INTO t2 VALUES (500, 2, 'not in t')",
    "attached": f"{LOOSE}; INSERT INTO t4 VALUES (100, 4, 'x'); ALTER TABLE t ATTACH PARTITION t4 FOR VALUES IN (4)",
    "attached, its rows changed": f"{LOOSE}; INSERT INTO t4 VALUES (100, 4, 'x'), (101, 4, 'x'); "
    "ALTER TABLE t ATTACH PARTITION t4 FOR VALUES IN (4); UPDATE t SET a = 'y' WHERE id = 100; "
    "DELETE FROM t WHERE id = 101",
    "attached, its rows gone": f"{LOOSE}; INSERT INTO t4 VALUES (100, 4, 'x'); "
    "ALTER TABLE t ATTACH PARTITION t4 FOR VALUES IN (4); DELETE FROM t WHERE id = 100",
    "detached, changed, attached again": "ALTER TABLE t DETACH PARTITION t2; DELETE FROM t2 WHERE id < 30; "
    "INSERT INTO t2 VALUES (500, 2, 'meanwhile'); ALTER TABLE t ATTACH PARTITION t2 FOR VALUES IN (2)",
    "branch detached, changed, attached again": "ALTER TABLE t DETACH PARTITION m; DELETE FROM m WHERE id < 30; "
    "ALTER TABLE t ATTACH PARTITION m FOR VALUES IN (3)",
    "swapped": f"{LOOSE}; INSERT INTO t4 VALUES (100, 2, 'x'); ALTER TABLE t DETACH PARTITION t2; "
    "ALTER TABLE t ATTACH PARTITION t4 FOR VALUES IN (2)",
}


@pytest.fixture(params=["DEFAULT", "FULL"])
def db(source_db: str, request: pytest.FixtureRequest) -> Iterator[Db]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        run(
            connection,
            "CREATE TABLE t (id int, p int, a text, PRIMARY KEY (id, p)) PARTITION BY LIST (p); "
            "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1); CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2); "
            "CREATE TABLE m PARTITION OF t FOR VALUES IN (3) PARTITION BY LIST (p); "
            f"CREATE TABLE m3 PARTITION OF m FOR VALUES IN (3); {FILL}; CREATE TABLE o (id int PRIMARY KEY)",
        )
        for table in ("t", "t1", "t2", "m", "m3"):
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY {request.param}")
        yield connection


def run(db: Db, script: str) -> None:
    for statement in script.split("; "):
        db.execute(statement)
    if "CREATE TABLE t4" in script:  # an identity is not inherited
        (identity,) = db.execute("SELECT relreplident::text FROM pg_class WHERE oid = 't'::regclass").fetchone() or "d"
        db.execute(f"ALTER TABLE t4 REPLICA IDENTITY {'FULL' if identity == 'f' else 'DEFAULT'}")


def assert_equal(ps: penstock.Session, db: Db, table: str = "t") -> None:
    relation, position, _ = ps.engine.position(table, None)
    found = ps.engine.reader.rows_arrow(relation, position).to_pylist()
    there = db.execute(f"SELECT * FROM {table}").fetchall()
    assert Counter(tuple(row.values()) for row in found) == Counter(there)


def kinds(ps: penstock.Session, table: str = "public.t") -> list[str]:
    """Oldest first."""
    return [event.kind for event in reversed(ps.events("shop")) if event.table == table]


@pytest.mark.parametrize("reopened", [False, True], ids=["while running", "between runs"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_happens_to_a_leaf_as_a_whole_copies_its_root_again(
    ps: penstock.Session, db: Db, source_db: str, change: str, reopened: bool
) -> None:
    ps.add_source("shop", source_db, tables=["t", "o"])
    other = relations.find(ps.catalog, "o").since
    db.execute("INSERT INTO t VALUES (70, 2, 'streamed'); INSERT INTO o VALUES (1)")
    ps.catch_up()
    if reopened:
        ps.engine.captures.close()
    run(db, change)
    db.execute("INSERT INTO o VALUES (2)")
    ps.catch_up()
    assert_equal(ps, db)
    assert kinds(ps) == ["resync"]
    db.execute("UPDATE t SET a = 'later' WHERE id % 5 = 0; DELETE FROM t WHERE id % 7 = 0; INSERT INTO o VALUES (3)")
    ps.catch_up()
    assert_equal(ps, db)
    assert_equal(ps, db, "o")
    assert kinds(ps) == ["resync"]
    assert relations.find(ps.catalog, "o").since == other


@pytest.mark.parametrize("reopened", [False, True], ids=["while running", "between runs"])
def test_a_partition_that_is_new_and_empty_costs_nothing(
    ps: penstock.Session, db: Db, source_db: str, reopened: bool
) -> None:
    full = db.execute("SELECT relreplident = 'f' FROM pg_class WHERE oid = 't'::regclass").fetchone() == (True,)
    ps.add_source("shop", source_db, tables=["t"])
    for number in range(4, 7):
        db.execute(f"CREATE TABLE t{number} PARTITION OF t FOR VALUES IN ({number})")
        db.execute(f"ALTER TABLE t{number} REPLICA IDENTITY {'FULL' if full else 'DEFAULT'}")
        ps.catch_up()
        if reopened:
            ps.engine.captures.close()
        db.execute(f"INSERT INTO t VALUES (200, {number}, 'new'); UPDATE t SET p = {number} WHERE id = {number}")
        ps.catch_up()
        assert_equal(ps, db)
        db.execute("DELETE FROM t WHERE p = 4")
        db.execute("VACUUM t")
    ps.catch_up()
    assert_equal(ps, db)
    assert kinds(ps) == []


def test_a_partition_that_has_rows_when_it_is_first_seen(ps: penstock.Session, db: Db, source_db: str) -> None:
    """Perhaps they came through the root; perhaps not all of them."""
    ps.add_source("shop", source_db, tables=["t"])
    run(db, f"{LOOSE}; ALTER TABLE t ATTACH PARTITION t4 FOR VALUES IN (4)")
    db.execute("INSERT INTO t VALUES (200, 4, 'new')")
    ps.catch_up()
    assert_equal(ps, db)
    db.execute("UPDATE t SET a = 'b' WHERE p = 4")
    ps.catch_up()
    assert_equal(ps, db)


@pytest.mark.parametrize("change", ["UPDATE t SET a = 'y' WHERE id = 100", "DELETE FROM t WHERE id = 100"])
def test_a_row_that_came_with_a_partition_changes_before_the_partition_is_seen(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The source's other tables go on meanwhile."""
    ps.add_source("shop", source_db, tables=["t", "o"])
    ps.catch_up()
    monkeypatch.setattr(changed_tables, "_LOOK", 3600.0)
    run(db, f"{LOOSE}; INSERT INTO t4 SELECT i, 4, 'x' FROM generate_series(100, 109) i")
    run(db, f"ALTER TABLE t ATTACH PARTITION t4 FOR VALUES IN (4); {change}; INSERT INTO o VALUES (1)")
    for number in (2, 3):
        ps.engine.capture(finish=False)
        db.execute("INSERT INTO o VALUES (%s)", [number])
    ps.catch_up()
    assert_equal(ps, db)
    assert_equal(ps, db, "o")
    assert kinds(ps) == ["resync"]
    assert kinds(ps, "public.o") == []


def test_an_unknown_row_is_told_with_its_table(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.execute("SELECT relreplident = 'f' FROM pg_class WHERE oid = 't'::regclass").fetchone() == (True,):
        pytest.skip("a whole row needs no other")
    ps.add_source("shop", source_db, tables=["t", "o"], on_schema_change="pause")
    ps.catch_up()
    monkeypatch.setattr(changed_tables, "_LOOK", 3600.0)
    run(db, f"{LOOSE}; INSERT INTO t4 VALUES (100, 4, 'x')")
    ps.catch_up()
    ps.engine.captures.close()  # a WAL sender of 13 that passed over rows of t4 would go on so after the ATTACH
    run(db, "ALTER TABLE t ATTACH PARTITION t4 FOR VALUES IN (4); UPDATE t SET a = 'y' WHERE id = 100")
    with pytest.raises(SchemaChanged, match=r"shop\.public\.t: a change at LSN .* not known here: .*100") as told:
        ps.engine.capture(finish=False)
    assert "ps.resync('shop', 'public.t')" in str(told.value.hint)
    assert kinds(ps) == ["paused"]
    ps.resync("shop", "t")
    ps.catch_up()
    assert_equal(ps, db)


def test_pause_stops_until_somebody_decides(ps: penstock.Session, db: Db, source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t", "o"], on_schema_change="pause")
    db.execute("TRUNCATE t2; INSERT INTO o VALUES (1)")
    for _ in range(2):
        with pytest.raises(SchemaChanged, match=r"public\.t .* partition public\.t2 was truncated") as stopped:
            ps.catch_up()
        assert "resync" in str(stopped.value.hint)
    assert kinds(ps) == ["paused"]
    ps.resume("shop")
    assert_equal(ps, db)
    assert_equal(ps, db, "o")


def test_leaves_of_a_source_that_did_not_note_them_yet(ps: penstock.Session, db: Db, source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    ps.catalog.connection.execute("UPDATE relations SET storage = storage - 'leaves'")
    ps.catch_up()
    db.execute("TRUNCATE t2")
    ps.catch_up()
    assert_equal(ps, db)
    assert kinds(ps) == ["resync"]
