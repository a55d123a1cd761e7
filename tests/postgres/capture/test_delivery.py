"""What comes out of a source is the source's own history: every committed change, whole, in order, once."""

from __future__ import annotations

import time

import psycopg
import pytest

from penstock import failpoint
from penstock.capture import Checkpoint, PostgresSource
from penstock.errors import ConfigError, SourceUnreachable
from penstock.lsn import Lsn

SHOP = """
CREATE TABLE customers (id int PRIMARY KEY, name text, joined timestamptz, balance numeric(10,2));
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL REFERENCES customers, paid bool, note text);
"""


def table(db, name: str, *key: str) -> dict:
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return {tuple(row[k] for k in key): row for row in cursor.execute(f"SELECT * FROM {name}")}


def busy(db) -> None:
    for i in range(20):
        with db.transaction():
            db.execute("INSERT INTO customers VALUES (%s, %s, now(), %s)", [100 + i, f"c{i}", i])
            db.execute(
                "INSERT INTO orders SELECT %s * 10 + g, %s, g > 2, repeat('x', g) FROM generate_series(1, 5) g",
                [i, 100 + i],
            )
            db.execute("UPDATE customers SET balance = balance + 1 WHERE id %% 3 = %s", [i % 3])
    db.execute("DELETE FROM orders WHERE id % 7 = 0")
    db.execute("UPDATE orders SET id = id + 100000 WHERE id % 5 = 0")
    with db.transaction(force_rollback=True):
        db.execute("DELETE FROM orders")


def test_copy_and_stream_together_are_the_table(db, make_source, drain):
    db.execute(SHOP)
    db.execute("INSERT INTO customers SELECT g, 'old', now(), g * 1.25 FROM generate_series(1, 50) g")
    source = make_source()
    source.open()
    busy(db)
    received = drain(source)
    busy_again = drain(source, received)
    assert busy_again.state("public.customers", "id") == table(db, "customers", "id")
    assert received.state("public.orders", "id") == table(db, "orders", "id")


def test_the_copy_is_one_transaction_in_parts(db, make_source):
    db.execute(SHOP)
    db.execute("INSERT INTO customers SELECT g, 'c', now(), 1 FROM generate_series(1, 2500) g")
    source = make_source()
    source.open()
    batches = [source.poll(max_records=1000, timeout=2)]
    while not batches[-1].complete:
        assert source.checkpoint().lsn == 0
        batches.append(source.poll(max_records=1000, timeout=2))
    rows = [row for batch in batches for t in batch.to_arrow().values() for row in t.to_pylist()]
    assert all(batch.rows <= 1000 and batch.snapshot for batch in batches)
    assert {(r["_op"], r["_weight"], r["_lsn"], r["_absent"]) for r in rows} == {("R", 1, batches[-1].cut, None)}
    assert [row["_seq"] for row in rows] == list(range(2500))
    assert source.checkpoint().lsn == batches[-1].cut


def test_empty_tables_give_exactly_one_complete_batch(db, make_source):
    db.execute(SHOP)
    source = make_source()
    source.open()
    batch = source.poll(timeout=2)
    assert (batch.complete, batch.rows, batch.snapshot) == (True, 0, True)
    assert source.poll(timeout=0.05) is None


def test_never_copies_nothing_and_starts_now(db, make_source, drain):
    db.execute(SHOP)
    db.execute("INSERT INTO customers VALUES (1, 'before', now(), 0)")
    source = make_source(snapshot_mode="never")
    source.open()
    db.execute("INSERT INTO customers VALUES (2, 'after', now(), 0)")
    assert [row["id"] for row in drain(source).rows("public.customers")] == [2]


@pytest.mark.since(11, "TRUNCATE is replicated")
def test_rows_of_each_operation_with_the_default_identity(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b int)")
    source = make_source("t", snapshot_mode="never")
    source.open()
    with db.transaction():
        xid = db.execute("SELECT txid_current()").fetchone()[0]
        db.execute("INSERT INTO t VALUES (1, 'x', NULL)")
        db.execute("UPDATE t SET b = 2")
        db.execute("UPDATE t SET id = 9")
        db.execute("DELETE FROM t")
        db.execute("TRUNCATE t")
    rows = drain(source).rows("public.t")
    assert {row["_xid"] for row in rows} == {xid}
    assert [[row[n] for n in ("id", "a", "b", "_weight", "_op", "_seq", "_absent")] for row in rows] == [
        [1, "x", None, 1, "I", 0, None],
        [1, None, None, -1, "U", 1, "1,2"],
        [1, "x", 2, 1, "U", 2, None],
        [1, None, None, -1, "U", 3, "1,2"],
        [9, "x", 2, 1, "U", 4, None],
        [9, None, None, -1, "D", 5, "1,2"],
        [None, None, None, 0, "T", 6, None],
    ]


def test_rows_with_full_identity_have_both_images(db, make_source, drain):
    db.execute("CREATE TABLE t (a text, b int); ALTER TABLE t REPLICA IDENTITY FULL")
    source = make_source("t", snapshot_mode="never", consolidate="off")
    source.open()
    db.execute("INSERT INTO t VALUES ('x', NULL), ('x', NULL); UPDATE t SET b = 1; DELETE FROM t")
    rows = drain(source).rows("public.t")
    assert [(r["a"], r["b"], r["_weight"]) for r in rows] == [
        *[("x", None, 1)] * 2, *[("x", None, -1), ("x", 1, 1)] * 2, *[("x", 1, -1)] * 2,
    ]  # fmt: skip
    assert {row["_absent"] for row in rows} == {None}


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_unchanged_toast_is_filled_or_named_absent(db, make_source, drain, identity):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, big text, n int); ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    db.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    db.execute("INSERT INTO t VALUES (1, repeat('toast', 5000), 1)")
    source = make_source("t")
    source.open()
    db.execute("UPDATE t SET n = 2")
    received = drain(source)
    new = received.rows("public.t")[-1]
    if identity == "FULL":
        assert (new["big"], new["_absent"]) == ("toast" * 5000, None)
    else:
        assert (new["big"], new["_absent"]) == (None, "1")
    assert received.state("public.t", "id") == table(db, "t", "id")


def test_identity_by_index_keys_rows_by_that_index(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE, n int)")
    db.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key")
    source = make_source("t", consolidate="off")
    source.open()
    assert source.tables["public.t"].key == ("code",)
    db.execute("INSERT INTO t VALUES (1, 'a', 1); UPDATE t SET n = 2; DELETE FROM t")
    rows = drain(source).rows("public.t")
    assert [(r["id"], r["code"], r["_absent"]) for r in rows if r["_weight"] < 0] == [(None, "a", "0,2")] * 2


def test_a_transaction_over_many_tables_keeps_its_order(db, make_source, drain):
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    source = make_source()
    source.open()
    with db.transaction():
        for i in range(10):
            db.execute(f"INSERT INTO {'ab'[i % 2]} VALUES ({i})")
    received = drain(source)
    rows = received.rows("public.a") + received.rows("public.b")
    assert [row["id"] for row in sorted(rows, key=lambda row: row["_seq"])] == list(range(10))
    assert len({row["_lsn"] for row in rows}) == 1


def test_a_large_transaction_comes_in_parts(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    source = make_source("t", snapshot_mode="never")
    source.open()
    db.execute("INSERT INTO t VALUES (-1)")
    db.execute("INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 100000) g")
    db.execute("INSERT INTO t VALUES (-2)")
    seen, ids = [], []
    while len(ids) < 100002:
        batch = source.poll(max_records=30000, timeout=5)
        ids += batch.to_arrow()["public.t"]["id"].to_pylist()
        seen.append((batch.rows, batch.complete))
        assert not batch.complete or source.checkpoint().lsn >= batch.cut
    assert ids == [-1, *range(1, 100001), -2]
    assert [complete for _, complete in seen][-2:] == [True, True] or seen[-1] == (10001, True)
    assert sum(1 for _, complete in seen if not complete) == 3


def test_a_value_larger_than_the_buffer(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY, x text)")
    db.execute("INSERT INTO t VALUES (1, repeat('a', 20000000))")
    source = make_source("t")
    source.open()
    db.execute("INSERT INTO t VALUES (2, repeat('b', 20000000)), (3, 'c')")
    state = drain(source).state("public.t", "id")
    assert {key: (row["x"][:1], len(row["x"])) for (key,), row in state.items()} == {
        1: ("a", 20000000), 2: ("b", 20000000), 3: ("c", 1),
    }  # fmt: skip


@pytest.mark.since(11, "TRUNCATE is replicated")
def test_other_tables_of_a_wider_publication_are_passed_over(db, make_source, drain):
    db.execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
    db.execute("CREATE PUBLICATION wide FOR TABLE a, b")
    source = make_source("a", publication_name="wide", snapshot_mode="never")
    source.open()
    db.execute("INSERT INTO b VALUES (1)")
    db.execute("INSERT INTO a VALUES (2)")
    db.execute("TRUNCATE a, b")
    received = drain(source)
    assert {name for batch in received.batches for name in batch.to_arrow()} == {"public.a"}
    assert [row["_op"] for row in received.rows("public.a")] == ["I", "T"]


def test_an_older_checkpoint_gives_the_same_transactions_again(db, make_source, drain, source_db):
    db.execute(SHOP)
    source = make_source()
    source.open()
    drain(source)
    old = source.checkpoint()
    source.acknowledge(old)
    busy(db)
    first = drain(source)
    newer = source.checkpoint()
    source.close()

    again = make_source(schemas=None)
    again.restore(Checkpoint.from_json(old.to_json()))
    again.open()
    second = drain(again)
    for name in ("public.customers", "public.orders"):
        assert second.rows(name) == first.rows(name)
    again.close()

    after = make_source()
    after.restore(newer)
    after.open()
    db.execute("INSERT INTO customers VALUES (999, 'new', now(), 0)")
    assert [row["id"] for row in drain(after).rows("public.customers")] == [999]


def test_every_boundary_restarts_exactly_behind_it(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", snapshot_mode="never")
    source.open()
    for i in range(6):
        db.execute("INSERT INTO t VALUES (%s)", [i])
    states = [(source.checkpoint(), 0)]
    while states[-1][1] < 6:
        if source.poll(max_records=1, timeout=1) is not None:
            states.append((source.checkpoint(), states[-1][1] + 1))
    source.close()
    for state, count in states:
        source.restore(state)
        source.open()
        assert [row["id"] for row in drain(source).rows("public.t")] == list(range(count, 6))
        source.close()


def test_only_acknowledge_moves_the_slot(db, make_source, drain, confirmed):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", slot="ack_slot")
    source.open()
    drain(source)
    start = confirmed(db, "ack_slot")
    db.execute("INSERT INTO t VALUES (1)")
    drain(source)
    state = source.checkpoint()
    time.sleep(0.1)
    assert confirmed(db, "ack_slot") == start < state.lsn
    with failpoint.arm("capture.before_acknowledge"), pytest.raises(failpoint.FailpointReached):
        source.acknowledge(state)
    source.acknowledge(state)
    for _ in range(50):
        if confirmed(db, "ack_slot") == state.lsn:
            break
        time.sleep(0.02)
    assert confirmed(db, "ack_slot") == state.lsn
    assert source.metrics().confirmed_lsn == state.lsn


def test_acknowledging_what_was_not_delivered_is_refused(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t")
    source.open()
    drain(source)
    state = source.checkpoint()
    ahead = Checkpoint(state.system_identifier, state.timeline, state.database, state.slot, Lsn(state.lsn + 1000000))
    with pytest.raises(ConfigError, match="not delivered"):
        source.acknowledge(ahead)


@pytest.mark.parametrize("commits", ["on", "off"])
def test_the_servers_position_is_reached_on_a_quiet_server(db, make_source, drain, commits):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t")
    source.open()
    drain(source)
    db.execute(f"SET synchronous_commit = {commits}")
    received, slowest = None, 0.0
    for i in range(5):
        db.execute("INSERT INTO t VALUES (%s)", [i])
        start = time.monotonic()
        received = drain(source, received)
        slowest = max(slowest, time.monotonic() - start)
    assert [row["id"] for row in received.rows("public.t")] == list(range(5))
    assert slowest < 1.0  # 0.07 s here; other tests share the machine


def test_a_lost_connection_is_transient_and_loses_nothing(db, make_source, drain):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", slot="lost_connection", reconnect=False)
    source.open()
    received = drain(source)
    source.poll(timeout=0)  # the copy is over: now the stream starts
    state = source.checkpoint()
    db.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'lost_connection'")
    db.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(SourceUnreachable) as lost:
        drain(source)
    assert lost.value.transient
    assert source.health().status == "failed"
    source.close()
    source.restore(state)
    source.open()
    assert [row["id"] for row in drain(source, received).rows("public.t")] == [1]


def test_a_crash_while_copying_shows_as_an_unfinished_copy(db, make_source):
    db.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10)")
    source = make_source("t")
    source.open()
    with failpoint.arm("capture.copy_part"), pytest.raises(failpoint.FailpointReached):
        source.poll(timeout=1)
    assert source.checkpoint().lsn == 0


def test_a_source_that_is_not_open_says_so(make_source):
    source: PostgresSource = make_source("t")
    for call in (source.poll, source.checkpoint, source.current_lsn, lambda: source.tables):
        with pytest.raises(ConfigError, match="not open"):
            call()
    assert source.health().status == "failed"
    assert source.metrics().rows_total == 0
