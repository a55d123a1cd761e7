"""A reader by itself says when rows of a root went with one of its partitions, which the WAL does not tell."""

from __future__ import annotations

import pytest

from penstock.capture import vitals
from penstock.errors import SchemaChanged

pytestmark = pytest.mark.since(13, "a partitioned table is published as one")


@pytest.fixture
def source(db, make_source, monkeypatch):
    monkeypatch.setattr(vitals, "_LOOK_EVERY", 0.0)
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)")
    for number in range(3):
        db.execute(f"CREATE TABLE t{number} PARTITION OF t FOR VALUES FROM ({number}0) TO ({number + 1}0)")
    db.execute("INSERT INTO t SELECT i, i FROM generate_series(0, 29) i")
    source = make_source("t", consolidate="off")
    source.open()
    return source


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("TRUNCATE t1", "partition public.t1 was truncated, rewritten"),
        ("DROP TABLE t1", "partitions dropped or detached: 1"),
        ("ALTER TABLE t DETACH PARTITION t1", "dropped or detached"),
        ("TRUNCATE t; DROP TABLE t1", "dropped or detached"),
        (
            "ALTER TABLE t DETACH PARTITION t1; ALTER TABLE t ATTACH PARTITION t1 FOR VALUES FROM (10) TO (20)",
            "detached and attached again",
        ),
    ],
)
def test_a_partition_that_lost_rows_is_told(db, source, drain, change, what):
    received = drain(source)
    db.execute(change)
    with pytest.raises(SchemaChanged, match=what) as told:
        drain(source, received)
    assert told.value.table == "public.t"
    assert "Copy it again" in told.value.hint
    assert len(received.state("public.t", "id")) == 30


def test_what_the_stream_has_is_no_trouble(db, source, drain):
    received = drain(source)
    for script in (
        "CREATE TABLE t3 PARTITION OF t FOR VALUES FROM (30) TO (40); INSERT INTO t VALUES (30, 1), (31, 1)",
        "TRUNCATE t; INSERT INTO t SELECT i, 0 FROM generate_series(5, 35) i",
        "TRUNCATE t; TRUNCATE t; UPDATE t SET v = 9; INSERT INTO t VALUES (1, 1)",
        "DELETE FROM t; INSERT INTO t SELECT i, 2 FROM generate_series(0, 39) i; ANALYZE t",
    ):
        db.execute(script)
        drain(source, received)
        rows = {(i,): v for i, v in db.execute("SELECT id, v FROM t")}
        assert {key: row["v"] for key, row in received.state("public.t", "id").items()} == rows
