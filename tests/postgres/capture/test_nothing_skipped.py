"""A batch that could not be given to the caller is given later, or nothing is given any more."""

from __future__ import annotations

import time

import psycopg
import pytest

from penstock import capture
from penstock.errors import PenstockError, SourceError
from penstock.lsn import Lsn


def _kill(db, *, senders: bool) -> None:
    db.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'penstock' AND (backend_type = 'walsender') = %s",
        [senders],
    )


def _polled(source, limit: int = 1000):
    deadline = time.monotonic() + 20
    while (batch := source.poll(max_records=limit, timeout=0.5)) is None:
        assert time.monotonic() < deadline, "nothing came"
    return batch


def _until(source, received, done, seconds: float = 20.0):
    deadline = time.monotonic() + seconds
    while not done():
        batch = source.poll(timeout=0.05)
        if batch is not None:
            received.batches.append(batch)
        assert time.monotonic() < deadline, "it did not come"


def test_a_value_that_cannot_be_fetched_now_is_fetched_after_the_reconnection(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    db.execute("INSERT INTO t SELECT g, 0, repeat('x', 9000) || g FROM generate_series(1, 3) g")
    source = make_source("t", toast_handling="fetch", consolidate="flush")
    source.open()
    received = drain(source)
    db.execute("UPDATE t SET n = 1 WHERE id = 1; UPDATE t SET n = 1 WHERE id = 2; UPDATE t SET n = 2 WHERE id = 3")
    received.batches.append(_polled(source, 2))
    _kill(db, senders=False)  # only the connection for queries: the rest of the changes has been read
    time.sleep(0.2)
    _until(source, received, lambda: received.state("public.t", "id")[3,]["n"] == 2)
    rows = received.state("public.t", "id")
    assert [rows[key,]["n"] for key in (1, 2, 3)] == [1, 1, 2]
    updates = [row for row in received.rows("public.t") if row["_op"] == "U" and row["_weight"] > 0]
    assert [row["_absent"] for row in updates] == [None] * 3, "fetched"
    assert source.metrics().reconnects == 1


def test_rows_that_cannot_be_read_back_are_never_passed_over(db, make_source, drain, tmp_path):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    source = make_source("t", max_transaction_memory_bytes=10_000, spill_directory=str(tmp_path), reader="stream")
    source.open()
    received = drain(source)
    with db.transaction():
        db.execute("INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 60000) g")
        (before_commit,) = db.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    assert not _polled(source, 10).complete
    spilled = list(tmp_path.rglob("*.arrow"))
    assert spilled
    for path in spilled:
        path.unlink()
    with pytest.raises(SourceError, match="could not be read back"):
        _until(source, received, lambda: False)
    assert source.phase == "failed"
    for _ in range(3):
        with pytest.raises(SourceError, match="could not be read back"):
            source.poll(timeout=0)
    assert source.checkpoint().lsn <= Lsn.parse(before_commit)


def test_an_interruption_while_a_batch_is_made_ends_the_reading(db, make_source, drain, monkeypatch):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t")
    source.open()
    drain(source)
    before = source.checkpoint().lsn
    db.execute("INSERT INTO t VALUES (1)")

    def interrupted(batch):
        raise KeyboardInterrupt

    monkeypatch.setattr(source._vitals, "delivered", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _polled(source)
    monkeypatch.undo()
    db.execute("INSERT INTO t VALUES (2)")
    for _ in range(3):
        with pytest.raises(PenstockError, match="interrupted"):
            source.poll(timeout=0.2)
    assert source.checkpoint().lsn == before


def test_a_source_that_failed_leaves_the_slot_alone(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", reconnect=False, snapshot_mode="never")
    source.open()
    drain(source)
    _kill(db, senders=True)
    with pytest.raises(PenstockError):
        _polled(source)
    with pytest.raises(PenstockError):
        source.poll(timeout=0.1)
    active = db.execute("SELECT bool_or(active) FROM pg_replication_slots WHERE database = current_database()")
    assert active.fetchone() == (False,)


def test_a_look_at_the_catalog_that_fails_is_made_again(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", on_schema_change="follow", snapshot_mode="never")
    source.open()
    db.execute("INSERT INTO t VALUES (1)")
    received = drain(source)
    _kill(db, senders=False)
    db.execute("BEGIN; INSERT INTO t VALUES (2); COMMIT; ALTER TABLE t ADD y int; INSERT INTO t VALUES (3, 3)")
    _until(source, received, lambda: (3,) in received.state("public.t", "id"))
    assert list(received.state("public.t", "id")) == [(1,), (2,), (3,)]
    assert source.metrics().reconnects == 1


@pytest.mark.since(14, "pulling")
def test_a_pull_does_not_wait_for_the_log_of_an_open_transaction(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x text); CREATE TABLE other (x text)")
    source = make_source("t", snapshot_mode="never", reader="pull")
    source.open()
    state = source.checkpoint()
    source.close()
    with psycopg.connect(db.info.dsn) as app:
        app.execute("SELECT 1")
        db.execute("INSERT INTO t SELECT g, repeat('x', 400) FROM generate_series(1, 10000) g")
        for size in range(40):
            app.execute("INSERT INTO other SELECT repeat('y', %s) FROM generate_series(1, 30)", [400 + size * 7])
        time.sleep(0.5)
        source.restore(state)
        source.open()
        assert source._reader._pull is not None
        began = time.monotonic()
        while (batch := source.poll(timeout=30)) is None:
            pass
        assert batch.rows
        assert time.monotonic() - began < 5
        drain(source)


@pytest.mark.since(14, "pulling")
def test_without_a_slot_for_a_pull_the_stream_goes_on_undisturbed(db, make_source, drain, monkeypatch):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    source = make_source("t", snapshot_mode="never")
    source.open()
    drain(source)
    monkeypatch.setattr(capture.reading, "_PULL_FROM", 1)
    monkeypatch.setattr(capture.reading, "_LOOK_EVERY", 1)
    (free,) = db.execute(
        "SELECT setting::int - (SELECT count(*) FROM pg_replication_slots) FROM pg_settings "
        "WHERE name = 'max_replication_slots'"
    ).fetchone()
    for number in range(free):
        db.execute("SELECT pg_create_physical_replication_slot(%s)", [f"taken_{number}"])
    try:
        stream = source._reader._stream
        for first in range(0, 50_000, 1000):
            db.execute(
                "INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(%s::int, %s) g",
                [first + 1, first + 1000],
            )
        received = drain(source)
        assert len(received.state("public.t", "id")) == 50_000
        assert source._reader._stream is stream
        assert source.metrics().errors == 0
    finally:
        for number in range(free):
            db.execute("SELECT pg_drop_replication_slot(%s)", [f"taken_{number}"])
