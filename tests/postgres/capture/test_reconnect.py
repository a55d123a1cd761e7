"""A lost connection costs time and nothing else; what a person must decide stops the source with one clear error."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import psycopg
import pytest
from servers import TEST_SETTINGS, bring_up, shut_down, start_server

from penstock.capture import Batch, PostgresSource, SourceConfig
from penstock.capture.reconnect import reattach
from penstock.errors import AccessRefused, PublicationLost, SlotLost, SourceUnreachable
from penstock.lsn import Lsn

WALSENDERS = "SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots WHERE slot_name = %s"


@dataclass
class Nothing:
    """Takes batches that do not matter."""

    batches: list[Batch] = field(default_factory=list)


def poll_until(source, received, done, *, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not done():
        batch = source.poll(timeout=0.05)
        if batch is not None:
            received.batches.append(batch)
        assert time.monotonic() < deadline, source.health()


@pytest.fixture
def streaming(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x int); INSERT INTO t VALUES (0, 0)")
    slot = f"reconnect_{db.info.dbname}"
    source = make_source("t", slot=slot)
    source.open()
    received = drain(source)
    db.execute("UPDATE t SET x = 1")
    drain(source, received)
    return source, received, slot


def cut(db, slot: str) -> None:
    """End the stream, and the connection for queries too."""
    db.execute(WALSENDERS, [slot])
    db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'penstock' "
               "AND datname = current_database()")  # fmt: skip


def test_a_cut_connection_is_made_again_without_gap_or_repeat(db, streaming):
    source, received, slot = streaming
    for n in range(1, 6):
        db.execute("INSERT INTO t SELECT %s * 1000 + g, g FROM generate_series(1, 50) g", [n])
        if n % 2:
            cut(db, slot)
        db.execute("UPDATE t SET x = x + 1 WHERE id = 0")
    poll_until(source, received, lambda: sum(r["_op"] == "U" for r in received.rows("public.t")) >= 12)
    rows = received.rows("public.t")
    assert len({(row["_lsn"], row["_seq"]) for row in rows}) == len(rows)
    assert source.metrics().reconnects >= 1
    assert source.phase == "streaming"
    state = source.checkpoint()
    source.acknowledge(state)
    assert source.health().status == "ok"


@pytest.mark.parametrize("reader", ["stream", "pull"])
def test_every_change_comes_once_whoever_reads(db, make_source, drain, reader):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    slot = f"once_{reader}"
    source = make_source("t", slot=slot, reader=reader)
    source.open()
    received = drain(source)
    for n in range(40):
        db.execute("INSERT INTO t VALUES (%s)", [n])
        if n % 10 == 5:
            cut(db, slot)
            batch = source.poll(timeout=0.05)
            received.batches += [batch] if batch else []
    poll_until(source, received, lambda: len(received.rows("public.t")) >= 40)
    assert [row["id"] for row in received.rows("public.t")] == list(range(40))


def test_without_reconnect_the_caller_gets_the_error(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", slot="no_reconnect", reconnect=False)
    source.open()
    db.execute("INSERT INTO t VALUES (1)")
    drain(source)
    db.execute(WALSENDERS, ["no_reconnect"])
    with pytest.raises(SourceUnreachable):
        poll_until(source, Nothing(), lambda: False)
    assert source.phase == "failed"


def test_a_slot_that_went_meanwhile_is_lost_and_stays_so(db, streaming):
    source, received, slot = streaming
    cut(db, slot)
    for _ in range(100):
        if not db.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()[0]:
            break
        time.sleep(0.02)
    db.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    with pytest.raises(SlotLost, match="does not exist") as lost:
        poll_until(source, received, lambda: False)
    assert "recover" in lost.value.hint
    with pytest.raises(SlotLost):
        source.poll()
    assert (source.health().status, source.phase) == ("failed", "failed")


@pytest.mark.since(11, "pg_replication_slot_advance")
def test_a_slot_that_somebody_moved_meanwhile_is_lost(db, streaming):
    source, received, slot = streaming
    db.execute(WALSENDERS, [slot])
    db.execute("INSERT INTO t VALUES (1, 1)")
    for _ in range(100):
        try:
            db.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", [slot])
            break
        except psycopg.errors.ObjectInUse:
            time.sleep(0.02)
    with pytest.raises(SlotLost, match="past the"):
        poll_until(source, received, lambda: False)


@pytest.mark.parametrize(
    ("change", "said"),
    [("SELECT 1", "does not exist"), ("CREATE PUBLICATION {} FOR TABLE t", "dropped and made again")],
)
def test_a_publication_that_was_dropped_under_the_stream_is_said(db, streaming, monkeypatch, change, said):
    """PostgreSQL 18 goes on without a word, and without the changes."""
    source, received, slot = streaming
    monkeypatch.setattr("penstock.capture.vitals._LOOK_EVERY", 0.1)
    name, state = f"penstock_{slot}", source.checkpoint()
    source._vitals.look(source._connection)
    db.execute(f"DROP PUBLICATION {name}; INSERT INTO t VALUES (1, 1)")
    db.execute(change.format(name))
    with pytest.raises(PublicationLost, match=said):
        poll_until(source, received, lambda: False)
    source.close()
    source.restore(state)
    with pytest.raises(PublicationLost, match=said):
        source.open()


def test_a_table_that_left_the_publication_for_a_while_is_said(db, streaming, monkeypatch):
    source, received, slot = streaming
    monkeypatch.setattr("penstock.capture.vitals._LOOK_EVERY", 0.1)
    source._vitals.look(source._connection)
    db.execute(f"ALTER PUBLICATION penstock_{slot} DROP TABLE t; INSERT INTO t VALUES (1, 1)")
    db.execute(f"ALTER PUBLICATION penstock_{slot} ADD TABLE t")
    with pytest.raises(PublicationLost, match=r"lost public\.t"):
        poll_until(source, received, lambda: False)


@pytest.mark.since(11, "pg_replication_slot_advance")
def test_a_slot_that_somebody_moved_before_the_stream_began_is_lost(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    source = make_source("t", slot="moved_early")
    source.open()
    while source.phase == "copying":
        source.poll()
    db.execute("INSERT INTO t VALUES (2)")
    db.execute("SELECT pg_replication_slot_advance('moved_early', pg_current_wal_lsn())")
    with pytest.raises(SlotLost, match="somebody else has read from it"):
        poll_until(source, Nothing(), lambda: False)


def test_what_is_compared_at_every_connect(db, streaming):
    """Another server, a failover, an older backup: told before anything is read."""
    source, _, _ = streaming
    config, state = source._config, source.checkpoint()
    for wrong, known, said in [
        (replace(state, system_identifier="1"), state.lsn, "another one"),
        (replace(state, timeline=state.timeline + 1), state.lsn, "timeline"),
        (replace(state, lsn=Lsn(16)), state.lsn, "past the"),
        (state, Lsn(state.lsn + (1 << 40)), "log ends at"),
    ]:
        source.close()
        with pytest.raises(SlotLost, match=said):
            reattach(config, ["public.t"], wrong, known)
    reattach(config, ["public.t"], state, state.lsn).connection.close()


def test_a_new_table_beside_the_captured_ones_does_not_stop_a_reconnect(db, make_source, drain):
    db.execute("CREATE TABLE a (id int PRIMARY KEY)")
    source = make_source("public.*", slot="pattern")
    source.open()
    received = drain(source)
    db.execute("CREATE TABLE b (id int PRIMARY KEY)")
    cut(db, "pattern")
    db.execute("INSERT INTO a VALUES (1)")
    poll_until(source, received, lambda: received.rows("public.a"))


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    server = start_server(tmp_path_factory.mktemp("fragile") / "pg", TEST_SETTINGS)
    yield server
    server.stop()


@pytest.mark.since(11, "a source needs no option about TRUNCATE")
def test_a_restart_of_the_server_is_waited_for_within_the_time_out(fragile, drain):
    with psycopg.connect(fragile.dsn, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        source = PostgresSource(SourceConfig.from_dsn(fragile.dsn, ["t"], slot_name="restarted"))
        source.open()
        received = drain(source)
        db.execute("INSERT INTO t VALUES (1)")
        drain(source, received)
        source.acknowledge(source.checkpoint())
    shut_down(fragile, "immediate")
    started = time.monotonic()
    assert [source.poll(timeout=0.3) for _ in range(3)] == [None] * 3
    assert 0.5 < time.monotonic() - started < 2.5
    health = source.health()
    assert (health.status, health.phase, source.phase) == ("warning", "reconnecting", "reconnecting")
    assert "attempt" in health.message
    with pytest.raises(SourceUnreachable):
        source.current_lsn()
    bring_up(fragile)
    with psycopg.connect(fragile.dsn, autocommit=True) as db:
        db.execute("INSERT INTO t VALUES (2)")
        poll_until(source, received, lambda: len(received.rows("public.t")) >= 2)
        assert [row["id"] for row in received.rows("public.t")] == [1, 2]
        assert (source.metrics().reconnects, source.phase) == (1, "streaming")

        shut_down(fragile, "immediate")
        hba = fragile.folder / "pg_hba.conf"
        before = hba.read_text()
        hba.write_text("local all postgres reject\n")
    bring_up(fragile)
    try:
        with pytest.raises(AccessRefused, match=r"pg_hba\.conf"):
            poll_until(source, received, lambda: False)
    finally:
        source.close()
        shut_down(fragile, "immediate")
        hba.write_text(before)
        bring_up(fragile)
