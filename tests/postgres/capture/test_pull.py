"""A pull reads by two copies of the slot in turns: wherever their ranges meet, each commit comes once and in order."""

from __future__ import annotations

import random

import psycopg
import pytest

from penstock import capture
from penstock.capture.bulk import Buffer
from penstock.capture.feed import Feed
from penstock.capture.pull import PullReader
from penstock.capture.stream import PluginOptions
from penstock.lsn import Lsn

pytestmark = pytest.mark.since(14, "pulling")
OPTIONS = PluginOptions("pulled", True, False, False, False)


@pytest.fixture
def backlog(db, source_db) -> Lsn:
    """Small transactions, so that every third byte is one of a commit's record, and some that span many of them."""
    db.execute("CREATE TABLE a (id int PRIMARY KEY, x text); CREATE PUBLICATION pulled FOR TABLE a")
    db.execute("SELECT pg_create_logical_replication_slot('pulled', 'pgoutput')")
    with psycopg.connect(source_db) as long, psycopg.connect(source_db) as other:
        for number in range(300):
            db.execute("INSERT INTO a VALUES (%s, 'x')", [number])
            long.execute("INSERT INTO a VALUES (%s, 'long')", [10_000 + number])
            other.execute("INSERT INTO a VALUES (%s, 'other')", [20_000 + number])
            if number % 20 == 9:
                other.rollback() if number % 40 == 9 else other.commit()
            if number == 250:
                long.commit()
        long.rollback()
    db.execute("SELECT pg_logical_emit_message(true, 'end', '')")
    yield start_of(db)
    db.execute("SELECT pg_drop_replication_slot('pulled')")


def start_of(db) -> Lsn:
    return Lsn.parse(db.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchone()[0])


def commits(reader: PullReader) -> list[bytes]:
    """What ends each transaction: its LSNs and its time."""
    feed, found = Feed(reader, "test"), []
    while not feed.finished:
        chunk = feed.take(1.0)
        if chunk is None:
            continue
        begin = chunk.start
        for end in chunk.ends[: chunk.messages]:
            message = chunk.data[begin:end].tobytes()[6:]  # behind the number of columns and the length
            begin = end
            if message[:1] == b"C":
                found.append(message)
        feed.give_back(chunk)
    feed.close()
    return found


def peeked(db) -> list[bytes]:
    """The same as the server gives it: of the backlog, and before 15 also empty ones of an autovacuum."""
    rows = db.execute(
        "SELECT data FROM pg_logical_slot_peek_binary_changes('pulled', NULL, NULL, "
        "'proto_version', '1', 'publication_names', 'pulled') WHERE get_byte(data, 0) = ascii('C')"
    ).fetchall()
    assert len(rows) >= 300 + 1 + 8
    return [data for (data,) in rows]


def test_ranges_may_meet_anywhere(db, source_db, backlog, monkeypatch):
    expected = peeked(db)
    monkeypatch.setattr(capture.pull, "_LAST", 0)
    monkeypatch.setattr(capture.pull, "_SHORTEST", 1)
    dice, copies = random.Random(5), []
    copy_of = capture.pull.SlotCopy
    monkeypatch.setattr(capture.pull, "SlotCopy", lambda *given: copies.append(given) or copy_of(*given))
    for _ in range(15):
        monkeypatch.setattr(capture.pull, "_RANGE", dice.randint(2000, 9000))
        reader = PullReader(source_db, "pulled", backlog, OPTIONS)
        assert commits(reader) == expected, capture.pull._RANGE
    assert len(copies) == 30
    assert start_of(db) == backlog, "the slot itself stays"


def test_one_copy_reads_it_all_where_there_is_no_slot_for_a_second(db, source_db, backlog, monkeypatch):
    monkeypatch.setattr(capture.pull, "_LAST", 0)
    monkeypatch.setattr(capture.pull, "_SHORTEST", 1)
    monkeypatch.setattr(capture.pull, "_RANGE", 1000)
    free = int(db.execute("SHOW max_replication_slots").fetchone()[0])
    (used,) = db.execute("SELECT count(*) FROM pg_replication_slots").fetchone()
    others = [f"other_{number}" for number in range(free - used - 1)]
    try:
        for other in others:
            db.execute("SELECT pg_copy_logical_replication_slot('pulled', %s)", [other])
        assert commits(PullReader(source_db, "pulled", backlog, OPTIONS)) == peeked(db)
    finally:
        db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'other%'")


def test_it_ends_though_the_server_goes_on_writing(db, source_db, backlog, monkeypatch):
    """What is written during a range is not pulled for its own sake: another range takes longer than to write more."""
    monkeypatch.setattr(capture.pull, "_LAST", 30_000)
    monkeypatch.setattr(capture.pull, "_SHORTEST", 1)
    reader, buffer, ranges = PullReader(source_db, "pulled", backlog, OPTIONS), Buffer(), 0
    while not reader.finished:
        chunk = reader.fill(buffer)
        if chunk is not None and not chunk.messages:
            ranges += 1
            assert ranges < 10
            first = ranges * 100_000
            more = "INSERT INTO a SELECT i, 'more' FROM generate_series(%s::int, %s::int) i"
            db.execute(more, [first, first + 50])
    reader.close()
    assert ranges > 1
