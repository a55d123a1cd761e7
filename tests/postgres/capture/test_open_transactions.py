"""Streamed, prepared and oversized transactions: whole, once, in commit order, whatever happens in between."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest
from servers import TEST_SETTINGS, start_server

from penstock import capture
from penstock.capture import PostgresSource, SourceConfig
from penstock.capture.connection import translate
from penstock.capture.slot import read_slot
from penstock.embedded import EmbeddedPostgres
from penstock.errors import NotStreamed

pytestmark = pytest.mark.since(14, "streamed transactions and pulling")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server that streams transactions from 64 kB on, and takes prepared ones."""
    settings = {**TEST_SETTINGS, "logical_decoding_work_mem": "64kB", "wal_sender_timeout": "3s"}
    server = start_server(tmp_path_factory.mktemp("open") / "pg", settings)
    with psycopg.connect(server.dsn, autocommit=True) as db:
        db.execute("CREATE TABLE a (id int PRIMARY KEY, x text); CREATE TABLE b (id int PRIMARY KEY, y numeric(9,2))")
    yield server
    server.stop()


@pytest.fixture
def db(server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        yield connection
        connection.execute("DO $$ BEGIN ASSERT (SELECT count(*) FROM pg_prepared_xacts) = 0; END $$")
        connection.execute("TRUNCATE a, b")


@pytest.fixture
def opened(server, tmp_path) -> Iterator:
    sources: list[PostgresSource] = []

    def make(name: str, **options) -> PostgresSource:
        options = {"spill_directory": str(tmp_path), "reader": "stream", **options}
        config = SourceConfig.from_dsn(server.dsn, ["a", "b"], slot_name=name, **options)
        sources.append(PostgresSource(config))
        return sources[-1]

    yield make
    with psycopg.connect(server.dsn, autocommit=True) as db:
        for source in sources:
            source.close()
        db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")


def rows(received) -> dict[str, dict]:
    return {name: received.state(f"public.{name}", "id") for name in "ab"}


def table(db) -> dict[str, dict]:
    found = {}
    for name in "ab":
        with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            found[name] = {(row["id"],): row for row in cursor.execute(f"SELECT * FROM {name}")}
    return found


def big(db, first: int, count: int = 3000) -> None:
    db.execute(
        "INSERT INTO a SELECT g, repeat('x', 50) || g FROM generate_series(%s::int, %s::int) g",
        [first, first + count - 1],
    )


def test_streamed_transactions_interleave_and_roll_back_in_part(server, db, opened, drain):
    source = opened("streamed")
    source.open()
    received = drain(source)
    with psycopg.connect(server.dsn) as one, psycopg.connect(server.dsn) as two, psycopg.connect(server.dsn) as three:
        big(one, 1)
        big(two, 10_000)
        big(three, 20_000)
        drain(source, received)
        one.execute("SAVEPOINT s")
        big(one, 30_000)
        db.execute("INSERT INTO b VALUES (1, 1.5)")
        one.execute("ROLLBACK TO s")
        one.execute("SAVEPOINT t; UPDATE a SET x = 'kept' WHERE id <= 10; RELEASE t")
        one.execute("INSERT INTO b VALUES (2, 2.5)")
        big(two, 40_000)
        drain(source, received)
        assert rows(received)["a"] == {}, "nothing of an open transaction is delivered"
        assert source.metrics().waiting_rows > 6000, "the server streamed them while they ran"
        two.commit()
        three.rollback()
        one.commit()
    drain(source, received, limit=1000)
    assert rows(received) == table(db)
    lsns = [row["_lsn"] for batch in received.batches for t in batch.to_arrow().values() for row in t.to_pylist()]
    assert lsns == sorted(lsns), "commit order"
    for batch in received.batches:
        assert batch.complete or batch.rows <= 1000


@pytest.mark.parametrize("streaming", ["auto", "off"])
def test_a_transaction_beyond_memory_is_spilled_and_delivered_in_parts(db, opened, drain, tmp_path, streaming):
    source = opened(f"spilled_{streaming}", streaming=streaming, max_transaction_memory_bytes=100_000)
    source.open()
    received = drain(source)
    with db.transaction():
        big(db, 1, 30_000)
        db.execute("INSERT INTO b SELECT g, g FROM generate_series(1, 20000) g")
        db.execute("SAVEPOINT s; DELETE FROM a WHERE id > 100; ROLLBACK TO s")
        db.execute("UPDATE a SET x = x || '!' WHERE id % 3 = 0")
    drain(source, received, limit=4000)
    assert rows(received) == table(db)
    parts = [batch for batch in received.batches if batch.rows]
    assert [batch.complete for batch in parts] == [False] * (len(parts) - 1) + [True]
    seqs = [row["_seq"] for batch in parts for t in batch.to_arrow().values() for row in t.to_pylist()]
    assert len(seqs) == len(set(seqs))
    assert not list(tmp_path.rglob("*.arrow")), "spilled rows go once they are read"


@pytest.mark.since(15, "two-phase decoding")
def test_prepared_transactions_survive_a_restart_and_hold_the_slot(server, db, opened, drain):
    source = opened("two_phase", two_phase=True)
    source.open()
    received = drain(source)
    with psycopg.connect(server.dsn, autocommit=True) as app:
        for gid, first in (("commits", 1), ("rolls back", 50_000), ("commits later", 60_000)):
            app.execute("BEGIN")
            big(app, first, 3000 if gid == "commits" else 10)
            app.execute(f"PREPARE TRANSACTION '{gid}'")
        app.execute("INSERT INTO b VALUES (7, 7)")
        drain(source, received)
        assert rows(received) == {"a": {}, "b": table(db)["b"]}, "nothing before the second phase"
        state = source.checkpoint()
        source.acknowledge(state)
        app.execute("COMMIT PREPARED 'commits'")
        source.close()
        source.restore(state)
        source.open()
        app.execute("ROLLBACK PREPARED 'rolls back'")
        drain(source, received)
        assert rows(received) == table(db)
        again = source.checkpoint()
        source.acknowledge(again)
        confirmed = app.execute(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'two_phase'"
        )
        assert confirmed.fetchone()[0] < str(again.lsn), "the slot waits for what is still prepared"
        source.close()
        source.restore(again)
        source.open()
        app.execute("COMMIT PREPARED 'commits later'")
        drain(source, received)
    assert rows(received) == table(db)
    counted = [row["id"] for row in received.rows("public.a")]
    assert len(counted) == len(set(counted)) == 3010


@pytest.mark.since(15, "two-phase decoding")
@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_prepared_transaction_without_changes_holds_nothing(server, db, opened, drain, ends, reopened):
    """PostgreSQL 18 sends its end without its begin."""
    source = opened("lone", two_phase=True)
    source.open()
    received = drain(source)
    with psycopg.connect(server.dsn, autocommit=True) as app:
        app.execute("INSERT INTO b VALUES (1, 1)")
        app.execute("BEGIN; SELECT * FROM b FOR UPDATE")
        app.execute("PREPARE TRANSACTION 'lone'")
        app.execute("INSERT INTO b VALUES (2, 2)")
        drain(source, received)
        if reopened:
            state = source.checkpoint()
            source.close()
            source.restore(state)
            source.open()
        app.execute(f"{ends} PREPARED 'lone'")
        app.execute("INSERT INTO b VALUES (3, 3)")
        drain(source, received)
        assert rows(received) == table(db)
        state = source.checkpoint()
        source.acknowledge(state)
        source.close()
        while (slot := read_slot(app, "lone")).active:  # until its server process has heard our last word
            time.sleep(0.02)
        assert slot.confirmed_lsn == state.lsn


def test_pull_and_stream_give_the_same_and_change_without_gap_or_repeat(server, db, opened, drain):
    pulled, streamed = opened("pulled", reader="pull"), opened("compared")
    for source in (pulled, streamed):
        source.open()
    first = {source: drain(source) for source in (pulled, streamed)}
    states = {source: source.checkpoint() for source in (pulled, streamed)}
    for source in (pulled, streamed):
        source.close()
    for step in range(30):
        with db.transaction():
            big(db, step * 1000 + 1, 500)
            db.execute("UPDATE a SET x = 'u' || id WHERE id %% 7 = %s", [step % 7])
            db.execute("INSERT INTO b VALUES (%s, 0.25) ON CONFLICT DO NOTHING", [step])
            if step % 5 == 4:
                db.execute("DELETE FROM a WHERE id %% 11 = %s", [step % 11])
    for source, state in states.items():
        source.restore(state)
        source.open()
        drain(source, first[source], limit=777)
        db.execute("INSERT INTO b VALUES (%s, 1) ON CONFLICT DO NOTHING", [1000 + len(first)])
        drain(source, first[source])
    drain(pulled, first[pulled])
    for name in ("public.a", "public.b"):
        ours, theirs = (
            [tuple(row.values()) for row in first[source].rows(name) if row["_op"] != "R"]
            for source in (pulled, streamed)
        )
        assert ours == theirs
    assert rows(first[pulled]) == table(db)
    left = db.execute("SELECT slot_name FROM pg_replication_slots WHERE temporary").fetchall()
    assert left == [], "the copy of the slot is gone once the pull is over"


def test_a_transaction_longer_than_a_range_is_left_to_the_stream(server, db, opened, drain, monkeypatch):
    source = opened("too_long", reader="pull")
    source.open()
    received = drain(source)
    state = source.checkpoint()
    source.close()
    monkeypatch.setattr(capture.pull, "_RANGE", 20_000)
    monkeypatch.setattr(capture.pull, "_FUTILE", 10_000)
    monkeypatch.setattr(capture.pull, "_LAST", 1000)
    monkeypatch.setattr(capture.reading, "_LOOK_EVERY", 100_000)
    db.execute("INSERT INTO b VALUES (1, 1)")
    big(db, 1, 2000)
    db.execute("INSERT INTO b VALUES (2, 2)")
    big(db, 20_000, 2000)
    source.restore(state)
    source.open()
    drain(source, received)
    assert rows(received) == table(db)
    assert len(received.rows("public.a")) == 4000


def test_partly_rolled_back_blocks_stay_in_bounds_at_their_commit(server, db, opened, drain, tmp_path):
    source = opened("bounded", max_transaction_memory_bytes=100_000)
    source.open()
    received = drain(source)
    with psycopg.connect(server.dsn) as app:
        for block in range(100):
            app.execute("SAVEPOINT s")
            big(app, 100_000 + block * 300, 300)
            app.execute("ROLLBACK TO s")
            big(app, 1 + block * 200, 200)
        app.commit()
    while (batch := source.poll(max_records=100, timeout=1)) is None:
        pass
    received.batches.append(batch)
    assert source._reader.backlog._held < 200_000
    drain(source, received, limit=5000)
    assert rows(received) == table(db)
    assert source._reader.backlog._held == 0
    assert not list(tmp_path.rglob("*.arrow"))


def unstreamable(app, first: int, undone: str = "TRUNCATE a") -> None:
    """The server cannot decode it before its commit."""
    big(app, first)
    app.execute("SAVEPOINT s")
    app.execute(undone)
    big(app, first + 10_000)
    app.execute("ROLLBACK TO s")
    big(app, first + 20_000)
    app.execute("TRUNCATE a, b")
    big(app, first)


@pytest.mark.parametrize("undone", ["TRUNCATE a", "ALTER TABLE a ADD z int"])
def test_what_the_server_cannot_stream_is_read_at_its_commit(server, db, opened, drain, undone):
    source = opened("unstreamable_" + undone.split()[0].lower(), snapshot_mode="never")
    source.open()
    received = drain(source)
    with psycopg.connect(server.dsn) as app:
        unstreamable(app, 1, undone)
        drain(source, received)
        assert rows(received)["a"] == {}, "nothing of an open transaction is delivered"
    db.execute("INSERT INTO b VALUES (1, 1.5)")
    drain(source, received)
    assert rows(received) == table(db)
    with psycopg.connect(server.dsn) as app:
        unstreamable(app, 100_000, undone)
    drain(source, received, limit=1000)
    assert rows(received) == table(db)
    seen = [(row["_lsn"], row["_seq"]) for batch in received.batches for t in batch.to_arrow().values()
            for row in t.to_pylist()]  # fmt: skip
    assert len(seen) == len(set(seen))
    assert source.metrics().errors == 0


def test_open_transactions_are_sent_again_once_it_is_past(server, db, opened, drain, monkeypatch):
    monkeypatch.setattr("penstock.capture.reading._WHOLE_FOR", 0.2)
    source = opened("streamed_again", snapshot_mode="never")
    source.open()
    received = drain(source)
    with psycopg.connect(server.dsn) as app:
        unstreamable(app, 1)
    drain(source, received)
    time.sleep(0.3)
    drain(source, received)
    with psycopg.connect(server.dsn) as app:
        big(app, 50_000)
        drain(source, received)
        assert source.metrics().waiting_rows > 0, "the server streams it while it runs"
    drain(source, received)
    assert rows(received) == table(db)


def test_what_the_server_cannot_decode_at_all_stops_for_a_person(opened, monkeypatch):
    source = opened("undecodable", streaming="off", snapshot_mode="never")
    source.open()
    source.poll(timeout=0.1)

    def refused(timeout):
        raise translate(psycopg.errors.InternalError_('could not map filenumber "base/5/16384" to relation OID'))

    monkeypatch.setattr(source._reader._feed, "take", refused)
    with pytest.raises(NotStreamed, match="filenumber") as stopped:
        source.poll(timeout=0.1)
    assert "copied again" in stopped.value.hint
