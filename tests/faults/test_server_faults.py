"""A server that restarts, crashes, is restored or drops what we need: nothing is lost or twice, or a person is told."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest
from faults.consumer import SETUP, Consumer, write
from servers import bring_up, shut_down, start_server

from penstock.errors import SlotLost, SourceError

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    """A server of our own to take down."""
    server = start_server(tmp_path_factory.mktemp("fragile") / "pg")
    yield server
    server.stop()


@pytest.fixture
def own(fragile) -> Iterator[tuple[str, Consumer]]:
    """A fresh database on it and its reader."""
    name = f"own_{next(_numbers)}"
    with psycopg.connect(fragile.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    dsn = fragile.dsn_of(name)
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(SETUP)
    consumer = Consumer(dsn, name)
    yield dsn, consumer
    consumer.close()


@contextmanager
def application(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as db:
        yield db


def restart(server, consumer: Consumer, mode: str) -> None:
    """The reader goes on meanwhile: a server that shuts down waits until what it sent was acknowledged."""
    thread = threading.Thread(target=shut_down, args=(server, mode))
    thread.start()
    try:
        while thread.is_alive():
            consumer.step(acknowledge=True)
        consumer.step()
    finally:
        thread.join()
        bring_up(server)


@pytest.mark.parametrize("overtaken", [False, True], ids=["behind us", "past us again"])
def test_a_server_restored_from_an_older_copy(fragile, own, overtaken):
    """It forgot commits that we have. Once its log is as long as ours again, only its content tells."""
    dsn, consumer = own
    with application(dsn) as db:
        write(db, 1)
        consumer.catch_up()
    consumer.close()
    folder = fragile.folder
    older = folder.with_name("older")
    shut_down(fragile)
    subprocess.run(["cp", "-a", folder, older], check=True)  # as it is: the server may run as somebody else
    bring_up(fragile)
    with application(dsn) as db:
        write(db, 2)
        consumer.catch_up()
    consumer.close()
    shut_down(fragile)
    shutil.rmtree(folder)
    older.rename(folder)
    bring_up(fragile)
    with application(dsn) as db:
        if overtaken:
            for tx in range(3, 9):
                write(db, tx, rows=200)
        with pytest.raises(SlotLost, match=r"older backup|another history") as lost:
            consumer.catch_up()
        assert lost.value.hint


@pytest.mark.parametrize("mode", ["fast", "immediate"])
@pytest.mark.parametrize("when", ["copying", "streaming"])
def test_a_restart_costs_only_time(fragile, own, mode, when):
    dsn, consumer = own
    with application(dsn) as db:
        if when == "streaming":
            consumer.catch_up()
        write(db, 1)
        consumer.step()
    restart(fragile, consumer, mode)
    with application(dsn) as db:
        write(db, 2)
        consumer.catch_up()
        assert consumer.errors
        consumer.assert_exact(db)


def test_a_crash_under_load(fragile, own):
    """What the server had not written was not committed; what it committed comes, whatever it had sent before."""
    dsn, consumer = own
    consumer.catch_up()

    def busy() -> None:
        with suppress(psycopg.OperationalError), application(dsn) as db:
            for tx in itertools.count(1):
                write(db, tx, rows=5)

    writer = threading.Thread(target=busy)
    writer.start()
    for _ in range(20):
        consumer.step()
    restart(fragile, consumer, "immediate")
    writer.join()
    with application(dsn) as db:
        consumer.catch_up()
        consumer.assert_exact(db)


def test_a_slot_dropped_behind_our_back(own):
    dsn, consumer = own
    slot = consumer.config.slot_name
    with application(dsn) as db:
        write(db, 1)
        consumer.catch_up()
        pid = db.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()[0]
        if pid:
            db.execute("SELECT pg_terminate_backend(%s)", [pid])
        while db.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone()[0]:
            time.sleep(0.02)
        db.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        write(db, 2)
        with pytest.raises(SlotLost, match="does not exist") as lost:
            consumer.catch_up()
        assert lost.value.hint


def test_changes_taken_by_somebody_else(own):
    """A foreign consumer moved the slot between two connections of ours: what it took can no longer be read."""
    dsn, consumer = own
    slot = consumer.config.slot_name
    with application(dsn) as db:
        consumer.catch_up()
        consumer.close()
        write(db, 1)
        _take_changes(db, consumer)
        with pytest.raises(SlotLost, match="past the checkpoint") as lost:
            consumer.catch_up()
        assert slot in str(lost.value)


def test_changes_taken_while_we_were_cut_off(own):
    dsn, consumer = own
    with application(dsn) as db:
        write(db, 1)
        consumer.catch_up()
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        write(db, 2)
        _take_changes(db, consumer)
        with pytest.raises(SlotLost, match="past the checkpoint"):
            consumer.catch_up()


@pytest.mark.parametrize("reader", ["stream", "pull"])
def test_changes_taken_while_we_copied(own, reader):
    dsn, consumer = own
    consumer = Consumer(dsn, consumer.config.slot_name, reader=reader)
    with application(dsn) as db:
        consumer.step()
        assert consumer.source.phase == "copying"
        write(db, 1)
        _take_changes(db, consumer)
        with pytest.raises(SlotLost, match="somebody else has read from it"):
            consumer.catch_up()
    consumer.close()


def _take_changes(db, consumer: Consumer) -> None:
    slot, publication = consumer.config.slot_name, consumer.config.publication_name
    for _ in range(100):
        try:
            db.execute(
                "SELECT count(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
                " 'proto_version', '1', 'publication_names', %s)",
                [slot, publication],
            )
            return
        except psycopg.errors.ObjectInUse:
            time.sleep(0.02)


@pytest.mark.since(13, "max_slot_wal_keep_size")
@pytest.mark.parametrize("connected", [True, False])
def test_wal_that_the_server_dropped(own, connected):
    dsn, consumer = own
    slot = consumer.config.slot_name
    with application(dsn) as db:
        write(db, 1)
        consumer.catch_up()
        if not connected:
            consumer.close()
        db.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
        db.execute("SELECT pg_reload_conf()")
        try:
            status = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s"
            while db.execute(status, [slot]).fetchone()[0] != "lost":
                db.execute("CREATE TABLE IF NOT EXISTS filler (x text); INSERT INTO filler VALUES (repeat('x', 100))")
                db.execute("SELECT pg_switch_wal()")
                db.execute("CHECKPOINT")
            with pytest.raises(SlotLost, match=r"dropped WAL|replication slot") as lost:
                consumer.catch_up()
            assert lost.value.hint
        finally:
            db.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
            db.execute("SELECT pg_reload_conf()")


def test_two_readers_of_one_slot(own, monkeypatch):
    dsn, consumer = own
    monkeypatch.setattr("penstock.capture.slot.LEAVE_TIME", 0.2)
    with application(dsn) as db:
        write(db, 1)
        consumer.catch_up()
        write(db, 2)
        consumer.step()
        second = Consumer(dsn, consumer.config.slot_name)
        second.state = consumer.state
        with pytest.raises(SourceError, match="in use by server process"):
            second._open()
        second.close()
        consumer.catch_up()
        consumer.assert_exact(db)
