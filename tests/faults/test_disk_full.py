"""A disk without room: one clear error, and everything once as soon as there is room again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from faults.consumer import Consumer, write
from full_disk import largest_file
from servers import NO_TRUNCATE

import penstock
from penstock.errors import StorageFull

NOISE = "SELECT g, (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 10) WHERE g > 0)"


@pytest.fixture
def ps(tmp_path: Path, catalog_db: str) -> Iterator[penstock.Session]:
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as session:
        yield session


@pytest.fixture
def source(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
        yield connection


def rows(ps: penstock.Session) -> Counter[tuple[Any, ...]]:
    found = ps.engine.reader.rows_arrow(*ps.engine.position("t")[:2]).to_pylist()
    return Counter(tuple(row.values()) for row in found)


def table(source: psycopg.Connection[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(source.execute("SELECT * FROM t").fetchall())


def test_no_room_for_the_changes(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    source.execute(f"INSERT INTO t {NOISE} FROM generate_series(1, 3000) g")
    for _ in range(2):
        with largest_file(100_000), pytest.raises(StorageFull, match="no room to write") as full:
            ps.catch_up()
        assert full.value.transient
        assert full.value.hint
    source.execute(f"INSERT INTO t {NOISE} FROM generate_series(3001, 3100) g; DELETE FROM t WHERE id % 3 = 0")
    ps.catch_up()
    assert rows(ps) == table(source)


@pytest.mark.since(14, "streamed transactions")
def test_no_room_for_what_is_spilled(db: psycopg.Connection[Any], source_db: str, tmp_path: Path) -> None:
    consumer = Consumer(
        f"{source_db} options='-c logical_decoding_work_mem=64kB'",
        f"spilled_{db.info.dbname}",
        direct=source_db,
        streaming="on",
        max_transaction_memory_bytes=10_000,
        spill_directory=str(tmp_path),
    )
    consumer.catch_up()
    with largest_file(1000):
        write(db, 1, rows=5000)
        while not consumer.errors:
            consumer.step()
    assert isinstance(consumer.errors[0], StorageFull)
    assert "spill_directory" in str(consumer.errors[0].hint)
    write(db, 2, rows=5000)
    consumer.catch_up()
    consumer.assert_exact(db)
    consumer.close()
    assert not list(tmp_path.rglob("*.arrow"))


def test_no_room_for_the_copy(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    source.execute(f"INSERT INTO t {NOISE} FROM generate_series(1, 3000) g")
    with largest_file(100_000), pytest.raises(StorageFull):
        ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    source.execute("UPDATE t SET x = 'new' WHERE id % 7 = 0")
    ps.catch_up()
    assert rows(ps) == table(source)
    slots = source.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    assert slots.fetchone() == (1,)
