"""A connection that ends inside a pull costs time and nothing else, wherever it is cut."""

from __future__ import annotations

import pytest
from faults.consumer import Consumer, write

from penstock import capture

pytestmark = pytest.mark.since(14, "pulling")


@pytest.fixture
def consumer(db, proxy, source_db, monkeypatch):
    """Pulls in ranges of a few transactions."""
    monkeypatch.setattr(capture.pull, "_RANGE", 60_000)
    monkeypatch.setattr(capture.pull, "_SHORTEST", 30_000)
    monkeypatch.setattr(capture.pull, "_LAST", 0)
    consumer = Consumer(proxy.dsn, f"pulled_{db.info.dbname}", direct=source_db, reader="pull")
    yield consumer
    consumer.close()


def test_cut_in_a_pull(db, proxy, consumer):
    """The copies of the slot send the most, so lengths up to theirs end inside their ranges."""
    consumer.catch_up()
    consumer.close()
    tx = backlog(db, 1)
    before = len(proxy.passed)
    consumer.catch_up()
    whole = max(proxy.passed[before:])
    assert whole > 20_000
    cut = 0
    for part in range(1, 11):
        consumer.close()
        tx = backlog(db, tx)
        before, failed = len(proxy.passed), len(consumer.errors)
        proxy.length = lambda length=whole * part // 10 - part: length
        for _ in range(100):
            consumer.step()
            if len(consumer.errors) > failed:
                break
        cut += len(consumer.errors) > failed
        proxy.length = lambda: None
        if part % 3 == 0:
            consumer.catch_up()
    consumer.catch_up()
    consumer.assert_exact(db)
    assert cut > 5


def backlog(db, tx: int) -> int:
    """Some transactions of different lengths; the number of the next one."""
    for rows in (3, 400, 20, 400):
        write(db, tx, rows=rows)
        tx += 1
    return tx
