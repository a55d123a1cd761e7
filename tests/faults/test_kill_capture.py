"""A real SIGKILL at every durable step of capture: after a restart no row is lost and none is there twice."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from faults.child import Child
from servers import NO_TRUNCATE, server_version

import penstock
from penstock.catalog import relations
from penstock.lsn import Lsn

# Where, and at which hit: the first hits are those of the initial copy.
STEPS = [
    "capture.publication_made",
    "capture.slot_created",
    "copy_begin.before_commit",
    "copy_begin.after_commit",
    "copy.range_written",
    "copy.before_commit*2",
    "copy.after_commit",
    "ingest.files_written",
    "ingest.before_commit",
    "ingest.after_commit",
    "ingest.before_acknowledge",
    "ingest.files_written*2",
    "ingest.before_commit*2",
    "ingest.after_commit*2",
    "capture.before_acknowledge*2",
    "settle.files_written",
    "settle.before_commit",
    "settle.after_commit",
]
PULLED = ["capture.pull_range", "ingest.before_commit", "ingest.before_acknowledge"]
SPILLED = {"max_transaction_memory_bytes": 1, "streaming": "on", "reader": "stream"}
CASES = [
    *(pytest.param(step, {}, id=step) for step in STEPS),
    *(
        pytest.param(step, {"reader": "pull"}, id=f"{step} in a pull", marks=pytest.mark.since(14, "pulling"))
        for step in PULLED
    ),
    pytest.param("capture.spilled*2", SPILLED, id="spilled", marks=pytest.mark.since(14, "streamed transactions")),
]
# A server that streams what it would else keep until the commit.
SMALL = "options='-c logical_decoding_work_mem=64kB'" if server_version() >= 13 else ""


@pytest.mark.parametrize(("failpoint", "options"), CASES)
def test_nothing_is_lost_or_twice(
    failpoint: str, options: dict[str, Any], tmp_path: Path, catalog_db: str, source_db: str
) -> None:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int, v text)")
        connection.execute("ALTER TABLE b REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO a SELECT i, i FROM generate_series(1, 500) i")
        connection.execute("INSERT INTO b SELECT i % 50, 'x' FROM generate_series(1, 300) i")
        dsn, options = f"{source_db} {SMALL}", {**options, **NO_TRUNCATE}
        child = Child(tmp_path / "home", catalog_db, dsn, failpoint, options)
        step = 0
        while child.caught_up():
            assert step < 5, "the failpoint was never reached"
            _change(connection, step)
            step += 1
            child.again()
        assert child.exit_code() == -signal.SIGKILL

        _change(connection, 10)
        with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as ps:
            ps.add_source("shop", dsn, tables=["public.*"], **options)
            frontier = ps.catch_up()
            for table in ("a", "b"):
                assert _rows(ps, table, frontier["shop"]) == _expected(connection, table)
            assert _unrecorded_files(ps) == set()
            slots = connection.execute(
                "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND NOT temporary"
            )
            assert slots.fetchone() == (1,)


def _change(connection: psycopg.Connection[Any], step: int) -> None:
    with connection.transaction():
        connection.execute("INSERT INTO a VALUES (%s, 0)", (1000 + step,))
        connection.execute("INSERT INTO a SELECT %s * 10000 + g, 1 FROM generate_series(1, 1500) g", (step + 1,))
        connection.execute("UPDATE a SET v = v + 1 WHERE id %% 7 = %s", (step % 7,))
        connection.execute("DELETE FROM a WHERE id = %s", (step + 1,))
        connection.execute("INSERT INTO b VALUES (%s, 'new'), (%s, 'new')", (step, step))
        connection.execute("UPDATE b SET v = 'y' WHERE id = %s", (step,))


def _rows(ps: penstock.Session, table: str, cut: Lsn) -> Counter[Any]:
    rows = ps.engine.reader.rows_arrow(relations.find(ps.catalog, table), cut)
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def _expected(connection: psycopg.Connection[Any], table: str) -> Counter[Any]:
    return Counter(connection.execute(f"SELECT * FROM {table}").fetchall())


def _unrecorded_files(ps: penstock.Session) -> set[str]:
    """Files in the changelog that no segment names, and that are not waiting for the last of their readers."""
    recorded = {row["path"] for row in ps.catalog.all("SELECT path FROM segments UNION SELECT path FROM dropped_files")}
    files = {ps.home.relative(file) for file in ps.home.changelog("").glob("**/*.parquet")}
    return files - recorded
