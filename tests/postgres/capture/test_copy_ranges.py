"""The copy in ranges on several connections: every row once, whatever the table is like, in each snapshot mode."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from penstock.capture import PostgresSource
from penstock.capture.copy_ranges import even_cuts, plan_ranges, ranges_between, table_sizes
from penstock.capture.discover import discover
from penstock.errors import ConfigError, SourceError, UnsafeTable

SMALL = {"copy_range_blocks": 4, "copy_workers": 3}


def copied(source: PostgresSource, limit: int = 5000) -> Counter[tuple[object, ...]]:
    """All rows up to the end of the copy, as (table, values…)."""
    rows: Counter[tuple[object, ...]] = Counter()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        batch = source.poll(limit, 0.1)
        if batch is None:
            continue
        assert batch.snapshot
        for name, table in batch.to_arrow().items():
            rows.update((name, *row.values()) for row in table.select(table.column_names[:-7]).to_pylist())
        if batch.complete:
            return rows
    raise AssertionError("the copy did not end")


def expected(db, *tables: str) -> Counter[tuple[object, ...]]:
    return Counter((f"public.{t}", *row) for t in tables for row in db.execute(f"SELECT * FROM ONLY {t}"))


def test_every_row_comes_once_from_many_ranges(db, make_source):
    db.execute("CREATE TABLE big (id int PRIMARY KEY, v text); CREATE TABLE empty (id int PRIMARY KEY)")
    db.execute("CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)")
    db.execute("INSERT INTO big SELECT i, repeat('x', i % 300) FROM generate_series(1, 9000) i")
    db.execute("DELETE FROM big WHERE id % 5 = 0; UPDATE big SET v = 'moved' WHERE id % 7 = 0")
    db.execute("INSERT INTO parent VALUES (1); INSERT INTO child VALUES (2), (3)")
    source = make_source(**SMALL)
    source.open()
    assert copied(source) == expected(db, "big", "empty", "parent", "child")
    progress = source.copy_progress()["public.big"]
    assert progress.rows == db.execute("SELECT count(*) FROM big").fetchone()[0]
    assert progress.estimated_bytes > 20 * 8192
    assert progress.bytes > 0


@pytest.mark.since(14, "scans of CTID ranges")
@pytest.mark.parametrize("version", [180000, 130000])
def test_ranges_hold_every_row_once_by_block_and_by_key(db, source_db, version):
    db.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text); CREATE TABLE w (k text PRIMARY KEY)")
    db.execute("INSERT INTO t SELECT i * i - 5000, repeat('y', 200) FROM generate_series(1, 3000) i")
    db.execute("INSERT INTO w SELECT 'k' || i FROM generate_series(1, 3000) i")
    tables = discover(db, ["public.t", "public.w"])
    server = db if version == 180000 else _Older(db, version)
    ranges = plan_ranges(server, tables, table_sizes(db, tables), 8, 2)
    counts = Counter()
    for one in ranges:
        query = f"SELECT count(*) FROM {one.table} WHERE {one.condition().as_string(db)}"
        counts[one.table] += db.execute(query).fetchone()[0]
    assert counts == {"public.t": 3000, "public.w": 3000}
    assert {one.by for one in ranges if one.table == "public.t"} == {"ctid" if version == 180000 else "id"}
    assert sum(one.table == "public.t" for one in ranges) > 5


class _Older:
    """The same connection, said to be to an older server."""

    def __init__(self, connection, version: int) -> None:
        self.execute = connection.execute
        self.info = type("Info", (), {"server_version": version})


def test_cuts():
    assert ranges_between("t", "id", [])[0].condition().as_string() == "true"
    assert even_cuts(0, 0, 8) == []
    assert even_cuts(-10, 9, 2) == [0]


@pytest.mark.since(13, "a partitioned table is published as one")
@pytest.mark.parametrize("via", ["root", "leaves"])
def test_a_partitioned_table_is_one_table_or_its_leaves(db, make_source, drain, via):
    db.execute("CREATE TABLE p (id int, k int, v text, PRIMARY KEY (id, k)) PARTITION BY RANGE (k)")
    db.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    db.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20) PARTITION BY LIST (k)")
    db.execute("CREATE TABLE p2a (v text, k int NOT NULL, id int NOT NULL, PRIMARY KEY (id, k))")
    db.execute("ALTER TABLE p2 ATTACH PARTITION p2a DEFAULT")
    db.execute("INSERT INTO p SELECT i, i % 20, repeat('z', 50) FROM generate_series(1, 4000) i")
    source = make_source("public.*", partitions=via, **SMALL)
    source.open()
    names = ["public.p"] if via == "root" else ["public.p1", "public.p2a"]
    assert sorted(source.tables) == names
    received = drain(source)
    db.execute("UPDATE p SET k = 15 WHERE k = 3; DELETE FROM p WHERE id < 100; INSERT INTO p VALUES (9001, 1, 'new')")
    drain(source, received)
    state = {}
    for name in names:
        state |= received.state(name, "id", "k")
    rows = {(i, k): v for i, k, v in db.execute("SELECT id, k, v FROM p")}
    assert {key: row["v"] for key, row in state.items()} == rows


@pytest.mark.since(13, "a partitioned table is published as one")
def test_partitions_that_cannot_be_told_apart_are_refused(db, make_source):
    db.execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    db.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    with pytest.raises(ConfigError, match=r"p1 is a partition of public\.p"):
        make_source("p", "p1").open()
    db.execute("ALTER TABLE p REPLICA IDENTITY FULL")
    with pytest.raises(UnsafeTable, match="another REPLICA IDENTITY") as refused:
        make_source("p").open()
    db.execute(refused.value.hint.removeprefix("Run ").partition(";")[0])
    db.execute("CREATE PUBLICATION by_leaf FOR TABLE p")
    with pytest.raises(SourceError, match="names of their partitions"):
        make_source("p", publication_name="by_leaf").open()
    make_source("p").open()


def test_initial_only_copies_and_leaves_nothing(db, make_source):
    db.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10)")
    source = make_source("t", snapshot_mode="initial_only")
    source.open()
    assert not source.finished
    assert copied(source) == expected(db, "t")
    assert source.finished
    assert source.phase == "finished"
    assert source.health().status == "ok"
    assert source.poll(timeout=0.01) is None
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    assert db.execute(slots).fetchone() == (0,)
    assert db.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
    state = source.checkpoint()
    source.close()
    again = make_source("t", snapshot_mode="initial_only")
    again.restore(state)
    again.open()
    assert again.finished
    assert again.poll(timeout=0.01) is None


def test_always_copies_anew_at_every_open(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i")
    source = make_source("t", snapshot_mode="always")
    source.open()
    received = drain(source)
    state = source.checkpoint()
    source.acknowledge(state)
    source.close()
    db.execute("UPDATE t SET v = 1 WHERE id < 5; DELETE FROM t WHERE id > 8")
    again = make_source("t", snapshot_mode="always")
    again.restore(state)
    again.open()
    assert again.checkpoint().lsn == state.lsn  # until the copy is whole, the old position holds
    drain(again, received)
    db.execute("INSERT INTO t VALUES (99, 9)")
    drain(again, received)
    rows = {(i,): {"id": i, "v": v} for i, v in db.execute("SELECT * FROM t")}
    assert received.state("public.t", "id") == rows
    assert {row["_op"] for row in received.rows("public.t")} == {"R", "T", "I"}


def test_a_copy_that_fails_on_one_connection_says_so(db, make_source):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i")
    source = make_source("t", **SMALL)
    source.open()
    db.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND state = 'idle in transaction'"
    )
    with pytest.raises(SourceError):
        copied(source)
    assert source.phase == "failed"
