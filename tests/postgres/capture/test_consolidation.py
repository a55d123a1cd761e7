"""Consolidation against a server: fewer rows, the same table, in every replica identity."""

from __future__ import annotations

from typing import Any

import pytest

_WORK = """
INSERT INTO t SELECT n, 'a', 0 FROM generate_series(1, 20) n;
UPDATE t SET v = 'b' WHERE id <= 10;
UPDATE t SET x = x + 1 WHERE id <= 5;
UPDATE t SET id = id + 100 WHERE id BETWEEN 3 AND 6;
DELETE FROM t WHERE id = 103 OR id = 20;
INSERT INTO t VALUES (20, 'again', 0);
"""


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_transaction_leaves_what_it_did(db: Any, make_source: Any, drain: Any, identity: str) -> None:
    db.execute(f"CREATE TABLE t (id int PRIMARY KEY, v text, x int); ALTER TABLE t REPLICA IDENTITY {identity}")
    source = make_source("t")
    source.open()
    received = drain(source)
    with db.transaction():
        db.execute(_WORK)
    with db.transaction():
        for _ in range(10):
            db.execute("UPDATE t SET x = x + 1 WHERE id = 1")
        db.execute("INSERT INTO t VALUES (500, '', 0); DELETE FROM t WHERE id = 500")
    drain(source, received)
    truth = {(row[0],): dict(zip(("id", "v", "x"), row, strict=True)) for row in db.execute("TABLE t")}
    assert received.state("public.t", "id") == truth
    rows = received.rows("public.t")
    assert len(rows) == 19 + 2  # every row of the first transaction is new, the second updated one
    assert [(row["_op"], row["_weight"]) for row in rows[-2:]] == [("U", -1), ("U", 1)]
    metrics = source.metrics()
    assert metrics.consolidated_rows_out == 21
    assert metrics.consolidation_ratio > 2


def test_nothing_is_left_of_an_update_that_changed_nothing(db: Any, make_source: Any, drain: Any) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v text); ALTER TABLE t REPLICA IDENTITY FULL")
    db.execute("INSERT INTO t VALUES (1, NULL), (2, 'b')")
    source = make_source("t", snapshot_mode="never")
    source.open()
    db.execute("UPDATE t SET v = v")
    assert drain(source).batches == []


def test_off_leaves_every_row(db: Any, make_source: Any, drain: Any) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
    source = make_source("t", snapshot_mode="never", consolidate="off")
    source.open()
    db.execute("INSERT INTO t VALUES (1, 1); UPDATE t SET v = 2; DELETE FROM t")
    assert [row["_op"] for row in drain(source).rows("public.t")] == ["I", "U", "U", "D"]


def test_a_flush_is_one_transaction(db: Any, make_source: Any, drain: Any) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE s (id int PRIMARY KEY)")
    source = make_source("t", "s", snapshot_mode="never", consolidate="flush")
    source.open()
    db.execute("INSERT INTO t VALUES (1, 1)")
    for v in range(5):
        db.execute("UPDATE t SET v = %s", [v])
    db.execute("INSERT INTO s VALUES (1)")
    source.current_lsn()
    batches = []
    while not batches or "public.s" not in batches[-1].to_arrow():
        batch = source.poll(max_records=1000, timeout=1)
        batches += [] if batch is None else [batch]
    rows = [row for batch in batches for table in batch.to_arrow().values() for row in table.to_pylist()]
    assert len({row["_lsn"] for row in rows}) == len(batches)
    assert sum(row["_weight"] for row in rows) == 2
    last = [row for row in rows if "v" in row and row["_weight"] > 0][-1]
    assert last["v"] == 4


def test_parts_of_a_large_transaction_add_up(db: Any, make_source: Any, drain: Any) -> None:
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v text, x int)")
    source = make_source("t", snapshot_mode="never")
    source.open()
    with db.transaction():
        db.execute(_WORK)
    received = drain(source, limit=7)
    truth = {(row[0],): dict(zip(("id", "v", "x"), row, strict=True)) for row in db.execute("TABLE t")}
    assert received.state("public.t", "id") == truth
