"""Rows that are encoded before their file ends, in parts and files of any size: what is read is what the source has."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest

import penstock
from penstock.capture import PostgresSource, ingest


@pytest.mark.since(11, "TRUNCATE in the stream")
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize(("part", "file"), [(1, 5), (4, 17), (4, 1000), (1000, 7)])
def test_any_size(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch, part: int, file: int, identity: str
) -> None:
    poll = PostgresSource.poll
    monkeypatch.setattr(ingest, "_PART_ROWS", part)
    monkeypatch.setattr(ingest, "_FLUSH_ROWS", file)
    monkeypatch.setattr(PostgresSource, "poll", lambda self, max_records, timeout: poll(self, 3, timeout))
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        db.execute("CREATE TABLE u (id int PRIMARY KEY)")
        db.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}".encode())
        db.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 20) i")
        ps.add_source("shop", source_db, tables=["t", "u"])
        for step in range(8):
            db.execute("UPDATE t SET v = v + 1 WHERE id %% 4 = %s", (step % 4,))
            db.execute("INSERT INTO t (id, v) VALUES (%s, 0)", (100 + step,))
            db.execute("INSERT INTO u VALUES (%s)", (step,))
            if step == 4 and file < 1000:
                db.execute("ALTER TABLE t ADD COLUMN w int DEFAULT 7")
            db.execute("DELETE FROM t WHERE id = %s", (step + 1,))  # also behind all others, alone in memory
        ps.catch_up()
        assert all(rows_of(ps, name) == Counter(db.execute(f"SELECT * FROM {name}".encode())) for name in ("t", "u"))


def rows_of(ps: penstock.Session, name: str) -> Counter[tuple[Any, ...]]:
    relation, position, _ = ps.engine.position(name)
    return Counter(tuple(row.values()) for row in ps.engine.reader.rows_arrow(relation, position).to_pylist())
