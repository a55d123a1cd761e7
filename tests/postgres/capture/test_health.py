"""Lag, loss, heartbeats, metrics and watermarks, told by a real server."""

from __future__ import annotations

import time

import psycopg
import pytest
from servers import TEST_SETTINGS, start_server

from penstock.capture import PostgresSource, SourceConfig
from penstock.capture.connection import connect
from penstock.capture.heartbeat import ServerHeartbeat
from penstock.errors import SlotLost
from penstock.lsn import Lsn


def poll_for(source: PostgresSource, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        source.poll(timeout=0.1)


@pytest.mark.since(11, "TRUNCATE is replicated")
def test_events_are_counted_by_kind(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t SELECT g, g FROM generate_series(1, 5) g")
    source = make_source("t")
    source.open()
    drain(source)
    assert (source.metrics().snapshot_rows, source.metrics().events_total) == (5, 0)
    db.execute("INSERT INTO t VALUES (6, 6), (7, 7); UPDATE t SET x = 0 WHERE id < 4")
    db.execute("UPDATE t SET id = 70 WHERE id = 7")
    db.execute("DELETE FROM t WHERE id = 1; TRUNCATE t")
    before = time.time()
    drain(source, limit=2)
    source.acknowledge(source.checkpoint())
    told = source.metrics().as_mapping()
    kinds = ("inserts", "updates", "deletes", "truncates", "events_total", "errors", "reconnects")
    assert [told[kind] for kind in kinds] == [2, 4, 1, 1, 8, 0, 0]
    assert told["transactions"] >= 3
    assert told["wal_bytes_consumed"] > 0
    assert abs(told["last_event_time"] / 1e6 - before) < 10
    assert abs(told["last_poll_time"] / 1e6 - time.time()) < 10
    assert told["confirmed_lsn"] == told["current_lsn"] > 0
    assert told["replication_lag_bytes"] < 1 << 20


def test_a_heartbeat_is_a_commit_of_our_own_where_the_slot_stands_still(db, source_db, make_source, drain):
    """Servers tell by themselves how far they have read; where one does not, the message's commit does."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (x text)")
    source = make_source("t")
    source.open()
    drain(source)
    stands = source.checkpoint().lsn
    beat = ServerHeartbeat(interval=0.001)
    with connect(source_db) as connection:
        assert not beat.beat(connection, stands)
        assert not beat.beat(connection, stands)  # an idle server is left alone
        db.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 500)")
        assert beat.beat(connection, stands)
        assert not beat.beat(connection, Lsn(stands + 1))  # it moves
    assert beat.sent == 1
    commits = source.metrics().transactions
    assert drain(source).batches == []
    assert source.checkpoint().lsn > stands + 400_000
    assert source.metrics().transactions >= commits


def test_no_heartbeat_where_it_is_turned_off(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (x text)")
    source = make_source("t", server_heartbeat_interval=0.05, server_heartbeat_enabled=False)
    source.open()
    drain(source)
    db.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 200)")
    for _ in range(6):
        source.poll(timeout=0.05)
    assert source.metrics().server_heartbeats_sent == 0


def test_watermarks_are_commit_times_and_idle_tables_follow_the_server(db, make_source, drain):
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    source = make_source("a", "b", idle_timeout=0.3, snapshot_mode="never")
    source.open()
    db.execute("INSERT INTO a VALUES (1)")
    row = drain(source).rows("public.a")[0]
    marks = source.watermarks()
    assert marks.tables["public.a"].time == int(row["_ts"].timestamp() * 1e6 + 0.5)
    time.sleep(0.35)
    db.execute("INSERT INTO a VALUES (2)")
    drain(source)
    marks = source.watermarks()
    assert (marks.tables["public.a"].idle, marks.tables["public.b"].idle) == (False, True)
    assert marks.source is not None
    assert abs(marks.tables["public.b"].time / 1e6 - time.time()) < 10


@pytest.mark.parametrize("reader", ["stream", pytest.param("pull", marks=pytest.mark.since(14, "the pull reader"))])
def test_the_watermark_of_an_idle_table_does_not_pass_rows_that_are_still_to_come(
    db, make_source, drain, monkeypatch, reader
):
    """A server that is behind tells the time of now beside the position that it has come to."""
    monkeypatch.setattr("penstock.capture.vitals._LOOK_EVERY", 0.01)
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    db.execute("CREATE TABLE other (id int, v text)")
    source = make_source("a", "b", idle_timeout=0.01, snapshot_mode="never", reader=reader)
    source.open()
    db.execute("INSERT INTO b VALUES (0)")
    drain(source)
    state = source.checkpoint()
    source.acknowledge(state)
    source.close()
    db.execute("INSERT INTO other SELECT g, repeat('x', 200) FROM generate_series(1, 400000) g")
    db.execute("INSERT INTO b VALUES (1)")
    time.sleep(1)
    source.restore(state)
    source.open()
    source.current_lsn()  # so that the server is asked how far it is
    told, deadline = [], time.monotonic() + 60
    while (batch := source.poll(timeout=0.02)) is None or "public.b" not in batch.tables:
        told.append(source.watermarks().tables["public.b"].time)
        assert time.monotonic() < deadline
    committed = batch.to_arrow()["public.b"]["_ts"][0].value
    assert [time for time in told if time is not None and time > committed] == []
    later = time.time() * 1e6
    while (
        source.watermarks().tables["public.b"].time or 0
    ) < later - 1e6:  # once it is caught up, it goes on by itself
        source.poll(timeout=0.02)
        assert time.monotonic() < deadline


def test_a_slot_that_falls_behind_is_warned_of(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    source = make_source("t", max_wal_lag_bytes=100_000)
    source.open()
    drain(source)
    source.acknowledge(source.checkpoint())
    assert source.health().status == "ok"
    db.execute("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 500) g")
    health = source.health()
    assert (health.status, health.phase) == ("warning", "streaming")
    assert "behind" in health.message
    assert health.lag_bytes > 100_000


@pytest.fixture(scope="module")
def stingy(tmp_path_factory):
    """A server that keeps little WAL for slots."""
    settings = {**TEST_SETTINGS, "max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    server = start_server(tmp_path_factory.mktemp("stingy") / "pg", settings)
    yield server
    server.stop()


@pytest.mark.since(13, "max_slot_wal_keep_size")
def test_wal_that_was_dropped_under_the_reader_is_a_lost_slot(stingy, drain):
    with psycopg.connect(stingy.dsn, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (x text)")
        source = PostgresSource(SourceConfig.from_dsn(stingy.dsn, ["t"], slot_name="lost"))
        source.open()
        drain(source)
        for _ in range(4):  # what nobody acknowledges is kept only so long
            db.execute("INSERT INTO other VALUES ('x')")
            db.execute("SELECT pg_switch_wal()")
        db.execute("CHECKPOINT")
        with pytest.raises(SlotLost, match=r"max_slot_wal_keep_size|maximum reserved size") as lost:
            poll_for(source, 20)
        assert "recover" in lost.value.hint
        assert source.health().status == "failed"
        source.close()
