"""Under writes from several sessions the copy and the stream meet without a gap; restarts lose and repeat nothing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from penstock import capture
from penstock.capture import PostgresSource, SourceConfig

SETUP = """
CREATE TABLE accounts (id int PRIMARY KEY, balance int8 NOT NULL, note text);
CREATE TABLE moves (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source int, target int, amount int8);
ALTER TABLE accounts ALTER note SET STORAGE EXTERNAL;
INSERT INTO accounts SELECT g, 1000, repeat('n', 3000) FROM generate_series(1, 200) g;
"""


def transfer(db: psycopg.Connection, dice: random.Random) -> None:
    a, b = sorted(dice.sample(range(1, 201), 2))
    amount = dice.randint(1, 50)
    with db.transaction(force_rollback=dice.random() < 0.1):
        db.execute("UPDATE accounts SET balance = balance - %s WHERE id = %s", [amount, a])
        db.execute("INSERT INTO moves (source, target, amount) VALUES (%s, %s, %s)", [a, b, amount])
        db.execute("UPDATE accounts SET balance = balance + %s WHERE id = %s", [amount, b])
        if dice.random() < 0.1:
            db.execute("DELETE FROM moves WHERE id = (SELECT min(id) FROM moves)")
        if dice.random() < 0.1:
            db.execute("UPDATE accounts SET note = repeat(%s, 3000) WHERE id = %s", [dice.choice("xyz"), a])


@contextmanager
def load(dsn: str, sessions: int = 2) -> Iterator[None]:
    stop = threading.Event()

    def write(seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(dsn, autocommit=True) as db:
            while not stop.is_set():
                transfer(db, dice)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(sessions)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def rows(db, table: str) -> dict:
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return {(row["id"],): row for row in cursor.execute(f"SELECT * FROM {table}")}


def test_copy_and_stream_meet_and_restarts_repeat_nothing(db, source_db, make_source, drain):
    db.execute(SETUP)
    dice = random.Random(7)
    source = make_source()
    with load(source_db):
        source.open()
        durable = drain(source, limit=64)  # what a caller wrote down, with the checkpoint it belongs to
        state = source.checkpoint()
        for _ in range(6):
            fresh = []
            for _ in range(dice.randint(1, 30)):
                batch = source.poll(max_records=dice.randint(1, 40), timeout=0.02)
                if batch is None:
                    continue
                fresh.append(batch)
                if batch.complete and dice.random() < 0.3:
                    durable.batches += fresh
                    fresh, state = [], source.checkpoint()
                    if dice.random() < 0.5:
                        source.acknowledge(state)
            source.close()  # what is still in `fresh` was never written down
            source.restore(state)
            source.open()
    drain(source, durable, limit=500)
    assert durable.state("public.accounts", "id") == rows(db, "accounts")
    assert durable.state("public.moves", "id") == rows(db, "moves")


@pytest.mark.since(14, "pulling")
def test_the_reader_changes_all_the_time_without_gap_or_repeat(db, source_db, make_source, drain, monkeypatch):
    db.execute(SETUP)
    pulls = []
    monkeypatch.setattr(capture.reading, "_PULL_FROM", 3000)
    monkeypatch.setattr(capture.reading, "_LOOK_EVERY", 20_000)
    monkeypatch.setattr(capture.pull, "_RANGE", 30_000)
    monkeypatch.setattr(capture.pull, "_FUTILE", 15_000)
    monkeypatch.setattr(capture.pull, "_LAST", 100_000)  # more than the load writes during a range: the pull ends
    monkeypatch.setattr(
        capture.reading, "PullReader", lambda *arguments: pulls.append(1) or capture.pull.PullReader(*arguments)
    )
    source = make_source(max_transaction_memory_bytes=2000, reader="pull")
    dice = random.Random(3)
    with load(source_db):
        source.open()
        received = drain(source)
        started = time.monotonic()
        while len(pulls) < 4 and time.monotonic() - started < 60:
            batch = source.poll(max_records=dice.randint(1, 500), timeout=0.02)
            if batch is not None:
                received.batches.append(batch)
                if batch.complete and dice.random() < 0.2:
                    source.acknowledge(source.checkpoint())
            if dice.random() < 0.02:
                time.sleep(0.3)  # fall behind
    drain(source, received)
    assert len(pulls) > 3, "it changed"
    assert received.state("public.accounts", "id") == rows(db, "accounts")
    assert received.state("public.moves", "id") == rows(db, "moves")
    ids = [row["id"] for row in received.rows("public.moves") if row["_op"] in "RI"]
    assert len(ids) == len(set(ids)), "nothing came twice"


def test_every_transaction_is_whole_at_every_cut(db, source_db, make_source):
    """Money only moves: at every complete batch the balances add up to what they were."""
    db.execute(SETUP)
    source = make_source("accounts", "moves")
    balances: dict[int, int] = {}
    cuts = 0
    with load(source_db):
        source.open()
        while cuts < 60:
            batch = source.poll(max_records=7, timeout=0.5)
            table = batch and batch.to_arrow().get("public.accounts")
            for row in table.to_pylist() if table else []:
                if row["_weight"] > 0:
                    balances[row["id"]] = row["balance"]
            if batch is not None and batch.complete:
                cuts += 1
                assert sum(balances.values()) == 200_000


@pytest.mark.since(12, "wal_sender_timeout of one connection")
@pytest.mark.parametrize("heartbeat", [0.2, 60])
def test_a_busy_caller_keeps_its_connection(db, source_db, drain, heartbeat):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    config = SourceConfig.from_dsn(
        f"{source_db} options='-c wal_sender_timeout=800ms'",
        ["t"],
        slot_name=f"busy_{int(heartbeat)}",
        snapshot_mode="never",
        heartbeat_interval=heartbeat,
        reconnect=False,
    )
    with PostgresSource(config) as source:
        source.open()
        time.sleep(1.7)
        db.execute("INSERT INTO t VALUES (1)")
        assert len(drain(source).rows("public.t")) == 1
