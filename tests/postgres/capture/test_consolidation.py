"""Consolidation against a server: fewer rows, the same table, in every replica identity."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from penstock.capture.discover import discover

_SINCE_12 = pytest.mark.since(12, "nondeterministic collations")
_EQUAL = [
    pytest.param("float8", "7", "0", "-0", {}, id="float8"),
    pytest.param("float4", "7", "0", "-0", {}, id="float4"),
    pytest.param("numeric", "7", "1.0", "1.00", {"column_forms": {"public.t.k": "text"}}, id="numeric as text"),
    pytest.param("float8[]", "{7}", "{0}", "{-0}", {}, id="array"),
    pytest.param("interval", "7 days", "1 month", "30 days", {}, id="interval"),
    pytest.param("jsonb", "7", "1.0", "1.00", {}, id="jsonb"),
    pytest.param("bpchar", "b", "a", "a  ", {}, id="bpchar"),
    pytest.param("zero", "7", "0", "-0", {}, id="domain"),
    pytest.param("pair", "(7,b)", "(0,a)", "(-0,a)", {}, id="composite"),
    pytest.param("numrange", "[7,8]", "[1.0,2]", "[1.00,2]", {}, id="range"),
    pytest.param("text COLLATE anycase", "b", "a", "A", {}, id="collation", marks=_SINCE_12),
    pytest.param("name_of COLLATE anycase", "b", "a", "A", {}, id="domain with a collation", marks=_SINCE_12),
    pytest.param("citext", "b", "a", "A", {}, id="citext"),
]
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


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize(("typed", "other", "one", "same", "options"), _EQUAL)
def test_keys_that_are_equal_in_other_words_keep_their_order(
    db: Any, make_source: Any, drain: Any, typed: str, other: str, one: str, same: str, options: Any, identity: str
) -> None:
    """Whoever applies the changes in their order, with keys as equal as PostgreSQL has them, has its table."""
    if typed == "citext":
        if not db.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'citext'").fetchone():
            pytest.skip("this server has no citext")
        db.execute("CREATE EXTENSION citext")
    if "COLLATE" in typed:
        try:
            db.execute("CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this server is built without ICU")
    db.execute("CREATE DOMAIN zero AS float8; CREATE DOMAIN name_of AS text; CREATE TYPE pair AS (x float8, y text)")
    bare = typed.split()[0]
    db.execute(f"CREATE TABLE t (k {typed} PRIMARY KEY, v text); CREATE TABLE applied (k {typed} PRIMARY KEY, v text)")
    db.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    for name in ("t", "applied"):
        db.execute(f"INSERT INTO {name} VALUES (%s, 'A'), (%s, 'B')", [other, one])
    source = make_source("t", snapshot_mode="never", **options)
    source.open()
    drain(source)
    with db.transaction():
        db.execute("UPDATE t SET v = 'A2' WHERE v = 'A'")
        db.execute("DELETE FROM t WHERE v = 'B'")
        db.execute(f"UPDATE t SET k = %s::{bare} WHERE v = 'A2'", [same])
    with db.transaction():
        db.execute(f"UPDATE t SET k = %s::{bare}", [one])
        db.execute(f"UPDATE t SET k = %s::{bare}, v = 'C'", [same])
        db.execute("DELETE FROM t")
        db.execute("INSERT INTO t VALUES (%s, 'D')", [one])
    for row in drain(source).rows("public.t"):
        key = str(row["k"])
        if row["_weight"] < 0:
            assert db.execute(f"DELETE FROM applied WHERE k = %s::{bare}", [key]).rowcount == 1
        else:
            db.execute("INSERT INTO applied VALUES (%s, %s)", [key, row["v"]])
    assert db.execute("SELECT k::text, v FROM applied").fetchall() == db.execute("SELECT k::text, v FROM t").fetchall()


@pytest.mark.since(12, "nondeterministic collations")
def test_a_collation_with_equal_texts_of_other_bytes_is_noticed(db: Any) -> None:
    """Also on a server that cannot make one: its catalog says so."""
    db.execute('CREATE COLLATION anycase FROM "C"; CREATE DOMAIN word AS text COLLATE anycase')
    db.execute("CREATE TABLE a (k text COLLATE anycase PRIMARY KEY); CREATE TABLE b (k text PRIMARY KEY, v word)")
    db.execute(
        "CREATE TABLE c (v int, k word, PRIMARY KEY (k, v)); CREATE TABLE d (k text[] COLLATE anycase PRIMARY KEY)"
    )
    db.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'anycase'")
    found = discover(db, ["public.*"])
    assert [table.has_exact_key for table in found.values()] == [False, True, False, False]
