"""What is settled equals the source, also where a commit is too large to be settled at once, and without a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers import NO_TRUNCATE

import penstock
from penstock.capture import change_files
from penstock.catalog import relations
from penstock.cut import Frontier
from penstock.lake import settling
from penstock.lake.reader import Reader
from penstock.refresh.lake_side import LakeSide
from penstock.relation.rotation import Rotation


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        yield connection


def rows(ps: penstock.Session, table: str) -> Counter[Any]:
    relation, position, _ = ps.engine.position(table)
    return Counter(tuple(row.values()) for row in ps.engine.reader.rows_arrow(relation, position).to_pylist())


def source(db: psycopg.Connection[Any], table: str) -> Counter[Any]:
    return Counter(db.execute(f"SELECT * FROM {table}").fetchall())


@pytest.mark.usefixtures("settled_later")
def test_a_transaction_that_is_settled_in_parts(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows touched again and again, keys that move, a TRUNCATE and large values left out, over many files."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int, big text)")
    db.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    db.execute("INSERT INTO t SELECT i, i, repeat('x', 3000 + i) FROM generate_series(1, 40) i")
    ps.add_source("shop", source_db, tables=["t"], consolidate="off", **NO_TRUNCATE)
    monkeypatch.setattr(change_files, "ROTATION", Rotation(rows=7))
    monkeypatch.setattr(settling, "_CHUNK", 10)
    files: list[int] = []
    real = settling._chunks

    def counted(*given: Any) -> Any:
        found = list(real(*given))
        files.append(len(found))
        return iter(found)

    monkeypatch.setattr(settling, "_chunks", counted)
    with db.transaction():
        for step in range(3):
            db.execute("UPDATE t SET v = v + 1 WHERE id %% 2 = %s", (0,))
            db.execute("UPDATE t SET id = id + 1000 WHERE id = %s", (10 + step,))
            db.execute("DELETE FROM t WHERE id = %s", (30 + step,))
            db.execute("UPDATE t SET v = v * 2 WHERE id > 1000")
    ps.catch_up()
    assert max(files) > 5
    assert rows(ps, "t") == source(db, "t")
    if not NO_TRUNCATE:
        with db.transaction():
            db.execute("UPDATE t SET v = 0")
            db.execute("TRUNCATE t")
            db.execute("INSERT INTO t SELECT i, i, 'y' FROM generate_series(1, 30) i")
            db.execute("UPDATE t SET v = v + 1")
        ps.catch_up()
        assert rows(ps, "t") == source(db, "t")


def test_equal_rows_without_a_key(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    db.execute("CREATE TABLE t (a int, big text)")
    db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    db.execute("INSERT INTO t SELECT i % 3, repeat('x', 3000) FROM generate_series(1, 12) i")
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    db.execute("DELETE FROM t WHERE ctid IN (SELECT ctid FROM t WHERE a = 1 LIMIT 2)")
    db.execute("UPDATE t SET a = 9 WHERE ctid IN (SELECT ctid FROM t WHERE a = 2 LIMIT 1)")
    db.execute("UPDATE t SET a = 2 WHERE a = 0")
    db.execute("INSERT INTO t VALUES (2, NULL), (2, NULL), (NULL, NULL)")
    ps.catch_up()
    assert rows(ps, "t") == source(db, "t")
    assert rows(ps, "t")[(2, None)] == 2
    (segment, *_) = ps.engine.reader.segments(relations.find(ps.catalog, "t"), -1, 1 << 60)
    assert segment.rows == 12


@pytest.mark.since(11, "TRUNCATE in the stream")
def test_a_truncate_of_a_large_table_is_settled_in_parts(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.execute("CREATE TABLE bag (x int, v int); ALTER TABLE bag REPLICA IDENTITY FULL")
    db.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 40) i")
    db.execute("INSERT INTO bag SELECT i % 3, 1 FROM generate_series(1, 40) i")
    ps.add_source("shop", source_db, tables=["t", "bag"], consolidate="off")
    monkeypatch.setattr(settling, "_LARGE", 10)
    monkeypatch.setattr(Reader, "rows_arrow", None)  # nothing is read as a whole
    ps.publish("t")  # by the files of the copy, so without Spark
    seen = [(ps.frontier(), source(db, "t"), source(db, "bag"))]
    with db.transaction():
        for table in ("t", "bag"):
            db.execute(f"UPDATE {table} SET v = v + 1 WHERE v % 2 = 1")
            db.execute(f"TRUNCATE {table}")
            db.execute(f"INSERT INTO {table} SELECT i, 7 FROM generate_series(1, 5) i")
            db.execute(f"UPDATE {table} SET v = v + 1; DELETE FROM {table} WHERE v = 8 AND random() < 0.5")
            db.execute(f"TRUNCATE {table}")
            db.execute(f"INSERT INTO {table} SELECT i, i FROM generate_series(1, 15) i")
    db.execute("UPDATE t SET v = 0 WHERE id < 4")
    ps.catch_up()
    seen.append((ps.frontier(), source(db, "t"), source(db, "bag")))
    db.execute("UPDATE t SET id = id + 100 WHERE id < 4; TRUNCATE t; TRUNCATE bag; INSERT INTO t VALUES (1, 1)")
    ps.catch_up()
    seen.append((ps.frontier(), source(db, "t"), source(db, "bag")))
    monkeypatch.undo()
    for frontier, *expected in seen:
        for table, there in zip(("t", "bag"), expected, strict=True):
            assert at(ps, table, frontier) == there
    assert ps.verify().ok


def at(ps: penstock.Session, table: str, frontier: Frontier) -> Counter[Any]:
    relation, position, _ = ps.engine.position(table, frontier)
    found = LakeSide(ps.engine.reader, relation, position, relation.schema.columns, 1).rows([0], 1)
    return Counter(dict(found))
