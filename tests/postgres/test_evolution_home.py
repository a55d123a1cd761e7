"""A table that changes stays readable in every one of its shapes; what would lose rows is copied again, alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import penstock
from penstock.capture import changed_tables, vitals
from penstock.catalog import relations
from penstock.cut import Frontier
from penstock.errors import NotRetained, PublicationLost, SchemaChanged

pytestmark = pytest.mark.since(11, "a source needs no option about TRUNCATE, and defaults no rewrite")

STEPS = [
    "ALTER TABLE t ADD c int; UPDATE t SET c = id WHERE id < 4; INSERT INTO t VALUES (21, 'x', 1, 'v', 9)",
    "ALTER TABLE t ADD d timestamptz DEFAULT '2020-02-02 02:02:02+02'; UPDATE t SET b = -1 WHERE id IN (2, 21)",
    "ALTER TABLE t DROP a; DELETE FROM t WHERE id = 5; UPDATE t SET b = 100 WHERE id = 6",
    "ALTER TABLE t RENAME b TO bb; UPDATE t SET bb = bb + 1 WHERE id IN (2, 7); DELETE FROM t WHERE id = 8",
    "ALTER TABLE t RENAME id TO key; UPDATE t SET bb = 0 WHERE key = 9; UPDATE t SET key = 90 WHERE key = 10",
    "ALTER TABLE t ALTER v TYPE text; UPDATE t SET v = repeat('long', 10) WHERE key = 11",
    "ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET v = 'full' WHERE key = 12; DELETE FROM t WHERE key = 13",
    "BEGIN; INSERT INTO t VALUES (31, 1, 'one'); UPDATE t SET bb = 5 WHERE key IN (14, 15); ALTER TABLE t ADD e "
    "numeric(6,2) DEFAULT 1.5; UPDATE t SET e = 7, bb = 6 WHERE key IN (15, 16, 31); DELETE FROM t WHERE key = 14; "
    "COMMIT",
    "ALTER TABLE t REPLICA IDENTITY DEFAULT; ALTER TABLE t ALTER e TYPE numeric(9,2); UPDATE t SET e = 1234567.89 "
    "WHERE key = 17",
    "ALTER TABLE t ALTER bb DROP NOT NULL; UPDATE t SET bb = NULL WHERE key = 18",
    "ALTER TABLE t DROP v; ALTER TABLE t RENAME c TO v; DELETE FROM t WHERE key = 19; UPDATE t SET v = 1 WHERE key = 2",
    "TRUNCATE t; INSERT INTO t VALUES (1, 2, 3)",
]


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b int NOT NULL, v varchar(10))")
        connection.execute("INSERT INTO t SELECT i, 'a' || i, i, 'v' FROM generate_series(1, 20) i")
        connection.execute("CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1)")
        yield connection


Table = tuple[list[str], "Counter[Any]"]


def expected(db: psycopg.Connection[Any], table: str = "t") -> Table:
    cursor = db.execute(f"SELECT * FROM {table}")
    assert cursor.description is not None
    return [column.name for column in cursor.description], Counter(cursor.fetchall())


def found(ps: penstock.Session, table: str = "t", at: Frontier | None = None) -> Table:
    relation, position, _ = ps.engine.position(table, at)
    rows = ps.engine.reader.rows_arrow(relation, position)
    return rows.column_names, Counter(tuple(row.values()) for row in rows.to_pylist())


def run(db: psycopg.Connection[Any], script: str) -> None:
    for statement in script.split("; "):
        db.execute(statement)


BEHIND = [
    "ALTER TABLE t ADD x text; INSERT INTO t VALUES (21, 'a', 1, 'v', 'five'); ALTER TABLE t RENAME x TO y; "
    "ALTER TABLE t ADD x text; INSERT INTO t VALUES (22, 'a', 1, 'v', 'y', 'x')",
    "ALTER TABLE t ADD x text[] DEFAULT '{}'; UPDATE t SET b = 5 WHERE id = 1",
    "ALTER TABLE t ADD x int[] DEFAULT '{1,NULL}'; DELETE FROM t WHERE id = 2; UPDATE t SET x = '{2}' WHERE id = 3",
    "ALTER TABLE t ADD x inet DEFAULT '::1'; ALTER TABLE t ADD y date[] DEFAULT '{}'; DELETE FROM t WHERE id = 2",
]


@pytest.mark.parametrize("script", BEHIND)
def test_changes_that_are_read_after_all_of_them_were_made(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, script: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"])
    db.execute("UPDATE t SET a = 'before' WHERE id = 4")
    run(db, script)
    ps.catch_up()
    db.execute("UPDATE t SET a = 'after' WHERE id = 5; INSERT INTO other VALUES (2)")
    ps.catch_up()
    outcome = ps.verify("shop")
    assert outcome.ok, str(outcome)
    assert set(relations.find(ps.catalog, "t").schema.names) == {
        c.name for c in db.execute("SELECT * FROM t").description
    }
    assert found(ps, "other") == expected(db, "other")


def kinds(ps: penstock.Session, table: str = "public.t") -> list[str]:
    """Oldest first."""
    (source,) = ps.status().sources
    return [event.kind for event in reversed(source.events) if event.table == table]


@pytest.mark.parametrize("reopened", [False, True], ids=["while running", "between runs"])
def test_lossless_changes_are_followed(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, reopened: bool
) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"])
    identifier = relations.find(ps.catalog, "t").id
    seen = [(ps.frontier(), expected(db))]
    for step in STEPS:
        if reopened:
            ps.engine.captures.close()
        run(db, step)
        db.execute("INSERT INTO other SELECT max(id) + 1 FROM other")
        seen.append((ps.catch_up(), expected(db)))
        assert found(ps) == seen[-1][1], step
    for at, then in seen:
        assert found(ps, at=at) == then
    assert found(ps, "other") == expected(db, "other")
    assert set(kinds(ps)) == {"followed"}
    assert relations.find(ps.catalog, "t").id == identifier


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD c text DEFAULT md5(random()::text); UPDATE t SET b = 0 WHERE id = 1",
        "ALTER TABLE t ALTER b TYPE bigint USING b * 2; UPDATE t SET b = 0 WHERE id = 1",
        "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (b); UPDATE t SET v = 'w' WHERE id = 1",
        "ALTER TABLE t DROP v; ALTER TABLE t ADD v varchar(10); UPDATE t SET v = 'w' WHERE id = 1",
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, z text); INSERT INTO t VALUES (1, 'z')",
        "ALTER TABLE t ALTER b TYPE bigint",
    ],
    ids=["unknown default", "rewritten", "key", "column made again", "table made again", "rewritten without a change"],
)
def test_what_would_lose_rows_copies_that_table_again(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, change: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"])
    before = relations.find(ps.catalog, "other").since
    db.execute("INSERT INTO t VALUES (50, 'before', 50, 'v'); INSERT INTO other VALUES (2)")
    run(db, change)
    db.execute("INSERT INTO other VALUES (3)")
    ps.catch_up()
    assert found(ps) == expected(db)
    assert found(ps, "other") == expected(db, "other")
    assert kinds(ps) == ["resync"]
    assert relations.find(ps.catalog, "other").since == before
    db.execute("DELETE FROM t WHERE id = 1; INSERT INTO other VALUES (4)")
    ps.catch_up()
    assert found(ps) == expected(db)


def test_a_quiet_table_is_followed_too(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"])
    before = ps.frontier(), expected(db)
    run(db, "ALTER TABLE t ADD c int DEFAULT 7; ALTER TABLE t DROP a; ALTER TABLE t RENAME b TO bb")
    ps.catch_up()
    assert found(ps) == expected(db)
    assert found(ps, at=before[0]) == before[1]
    db.execute("UPDATE t SET bb = -bb, c = 8 WHERE id < 5; DELETE FROM t WHERE id = 6")
    ps.catch_up()
    assert found(ps) == expected(db)
    assert kinds(ps) == ["followed"]


def test_pause_stops_in_front_of_the_change_and_loses_nothing(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"], on_schema_change="pause")
    db.execute("UPDATE t SET b = 0 WHERE id = 1")
    before = expected(db)
    run(db, "ALTER TABLE t ADD c int DEFAULT 7; UPDATE t SET b = 0 WHERE id = 2; INSERT INTO other VALUES (2)")
    for _ in range(2):
        with pytest.raises(SchemaChanged, match="column c was added"):
            ps.catch_up()
    assert kinds(ps) == ["paused"]
    assert ps.status().sources[0].events[0].alert
    assert before[0] == found(ps)[0]
    ps.resume("shop")
    assert found(ps) == expected(db)
    assert found(ps, "other") == expected(db, "other")
    run(db, "ALTER TABLE t DROP c; UPDATE t SET b = 0 WHERE id = 3")
    with pytest.raises(SchemaChanged, match="column c was dropped"):
        ps.catch_up()


def test_ignore_keeps_the_columns(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"], on_schema_change="ignore")
    run(db, "ALTER TABLE t ADD c int DEFAULT 7; ALTER TABLE t RENAME a TO aa; UPDATE t SET b = 0, c = 8 WHERE id = 2")
    ps.catch_up()
    names, rows = expected(db, "(SELECT id, aa AS a, b, v FROM t) t")
    assert found(ps) == (names, rows)
    ps.engine.captures.close()
    run(db, "ALTER TABLE t DROP v; UPDATE t SET aa = 'new' WHERE id IN (2, 3); DELETE FROM t WHERE id = 4")
    run(db, "INSERT INTO t VALUES (77, 'x', 7, 7)")
    ps.catch_up()
    assert found(ps) == expected(db, "(SELECT id, aa AS a, b, NULL AS v FROM t) t")
    assert set(kinds(ps)) <= {"ignored", "followed"}
    assert "ignored" in kinds(ps)


def test_tables_come_and_go_while_the_source_runs(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["public.*", "!public.log_*"])
    last = expected(db)
    db.execute("CREATE TABLE later (id int PRIMARY KEY, v text); INSERT INTO later VALUES (1, 'x')")
    db.execute("CREATE TABLE log_1 (id int PRIMARY KEY); CREATE TABLE unsafe (id int); DROP TABLE t")
    db.execute("INSERT INTO other VALUES (2)")
    gone = ps.catch_up()
    assert found(ps, "later") == expected(db, "later")
    assert found(ps, "other") == expected(db, "other")
    assert sorted(one.table for one in relations.of_source(ps.catalog, "shop")) == [
        "public.later", "public.other", "public.t",
    ]  # fmt: skip
    assert kinds(ps, "public.later") == ["added"]
    assert kinds(ps, "public.unsafe") == ["refused"]
    assert kinds(ps) == ["ended"]
    assert found(ps) == last
    ps.catch_up()
    with pytest.raises(NotRetained, match="does not exist any more"):
        ps.engine.position("t", at=gone)
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
    ps.engine.captures.close()
    ps.catch_up()
    assert found(ps) == expected(db)
    assert kinds(ps) == ["ended", "resync"]


def test_a_root_that_is_listed_asks_for_leaves_that_come_later(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    """Rows move to them from leaves that are captured."""
    run(db, "CREATE SCHEMA old; CREATE TABLE p (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k); "
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE q (id int PRIMARY KEY); "
        "INSERT INTO p SELECT i, 1 FROM generate_series(1, 9) i")  # fmt: skip
    ps.add_source("shop", source_db, tables=["p", "other"], partitions="leaves")
    run(db, "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2); UPDATE p SET k = 2 WHERE id < 4; "
        "CREATE TABLE old.p3 (id int NOT NULL, k int NOT NULL, PRIMARY KEY (id, k)); "
        "INSERT INTO old.p3 VALUES (50, 3)")  # fmt: skip
    ps.catch_up()
    run(db, "ALTER TABLE p ATTACH PARTITION old.p3 FOR VALUES IN (3); UPDATE p SET k = 3 WHERE id = 5; "
        "CREATE TABLE p4 PARTITION OF p FOR VALUES IN (4) PARTITION BY RANGE (id); "
        "CREATE TABLE p4a PARTITION OF p4 DEFAULT; UPDATE p SET k = 4 WHERE id > 7")  # fmt: skip
    ps.catch_up()
    run(db, "INSERT INTO p VALUES (60, 1), (60, 2), (60, 3), (60, 4); DELETE FROM p WHERE id = 50")
    ps.catch_up()
    for leaf in ("p1", "p2", "old.p3", "p4a"):
        assert found(ps, leaf) == expected(db, leaf)
        assert kinds(ps, leaf if "." in leaf else f"public.{leaf}") == ([] if leaf == "p1" else ["added"])
    names = {one.table for one in relations.of_source(ps.catalog, "shop")}
    assert names == {"public.p1", "public.p2", "old.p3", "public.p4a", "public.other"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("DROP TABLE t", ["ended"]),
        ("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, z text); INSERT INTO t VALUES (1, 'z')", ["resync"]),
        ("BEGIN; CREATE TABLE n (LIKE t INCLUDING ALL); INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n "
         "RENAME TO t; COMMIT; INSERT INTO t VALUES (70, 'x', 7, 'v')", ["resync"]),
        ("DROP TABLE t; ALTER TABLE other RENAME TO t; CREATE TABLE other (id int PRIMARY KEY)", ["resync"]),
    ],
    ids=["dropped", "made again", "swapped", "another in its place"],
)  # fmt: skip
def test_a_table_that_the_reader_misses_first(
    ps: penstock.Session,
    db: psycopg.Connection[Any],
    source_db: str,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    told: list[str],
) -> None:
    """The reader looks at its publication more often than a running home looks at the source's tables."""
    monkeypatch.setattr(vitals, "_LOOK_EVERY", 0.0)
    ps.add_source("shop", source_db, tables=["t", "other"])
    ps.catch_up()
    last = expected(db)
    monkeypatch.setattr(changed_tables, "_LOOK", 3600.0)
    run(db, change)
    for number in range(100, 110):
        db.execute("INSERT INTO other VALUES (%s)", [number])
        ps.engine.capture(finish=False)
    ps.catch_up()
    assert found(ps, "other") == expected(db, "other")
    assert found(ps) == (last if told == ["ended"] else expected(db))
    assert kinds(ps) == told


def test_a_table_that_only_left_the_publication_is_an_error(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vitals, "_LOOK_EVERY", 0.0)
    ps.add_source("shop", source_db, tables=["t", "other"])
    db.execute("ALTER PUBLICATION penstock_shop DROP TABLE t; DROP TABLE other; INSERT INTO t VALUES (70, 'x', 7, 'v')")
    for _ in range(2):
        with pytest.raises(PublicationLost, match=r"public\.t"):
            ps.engine.capture()
    assert kinds(ps) == []


def test_a_table_that_ended_stays_as_it_was_while_it_cannot_be_copied(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"])
    last = expected(db)
    run(db, "ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t VALUES (70, 'unseen', 7, 'v')")
    ps.catch_up()
    ended = relations.find(ps.catalog, "t").ended
    for number in range(71, 74):
        db.execute(f"INSERT INTO t VALUES ({number}, 'unseen', 7, 'v'); INSERT INTO other VALUES ({number})")
        cut = ps.catch_up()
        with pytest.raises(NotRetained):
            ps.engine.position("t", at=cut)
    assert relations.find(ps.catalog, "t").ended == ended
    assert found(ps) == last
    assert kinds(ps) == ["ended"]
    db.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    ps.catch_up()
    assert found(ps) == expected(db)


def test_a_source_whose_last_table_was_dropped_says_so_and_goes_on_with_another(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    last = expected(db)
    db.execute("DROP TABLE t")
    for _ in range(2):
        with pytest.raises(SchemaChanged, match="no table left"):
            ps.catch_up()
    assert kinds(ps) == ["ended"]
    assert found(ps) == last
    db.execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
    ps.catch_up()
    assert found(ps) == expected(db)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_table_that_is_only_streamed_has_what_changed_since(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, identity: str
) -> None:
    db.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    ps.add_source("shop", source_db, tables=["t", "other"], sync_modes={"public.t": "stream-only"})
    assert found(ps)[1] == Counter()
    assert found(ps, "other") == expected(db, "other")
    db.execute("UPDATE t SET b = 0 WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (50, 'n', 1, 'v')")
    ps.catch_up()
    assert found(ps) == expected(db, "(SELECT * FROM t WHERE id IN (1, 50)) t")
    db.execute("UPDATE t SET id = 51 WHERE id = 3; UPDATE t SET b = 1 WHERE id = 51; UPDATE t SET b = 2 WHERE id = 1")
    db.execute("DELETE FROM t WHERE id IN (4, 50)")
    ps.catch_up()
    assert found(ps) == expected(db, "(SELECT * FROM t WHERE id IN (1, 51)) t")
    db.execute("TRUNCATE t; INSERT INTO t VALUES (1, 'a', 1, 'v'); UPDATE t SET b = 3")
    ps.catch_up()
    assert found(ps) == expected(db)


@pytest.mark.parametrize(
    "changed", ["ALTER TABLE other ALTER id TYPE bigint", "ALTER TABLE other ADD w text DEFAULT 'w'"]
)
def test_a_table_is_copied_again_while_another_changes_its_shape(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, changed: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"])
    run(
        db, f"UPDATE t SET b = 0 WHERE id = 1; {changed}; INSERT INTO other (id) VALUES (3); DELETE FROM t WHERE id = 2"
    )
    ps.resync("shop", "public.t")
    run(db, "UPDATE t SET b = 7 WHERE id = 3; UPDATE other SET id = 4 WHERE id = 3")
    ps.catch_up()
    assert found(ps) == expected(db)
    assert found(ps, "other") == expected(db, "other")
    assert ps.verify().ok


def test_a_table_is_copied_again_while_its_source_is_paused_for_another(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "other"], on_schema_change="pause")
    run(db, "ALTER TABLE other ADD w text; INSERT INTO other VALUES (3, 'w'); UPDATE t SET b = 0 WHERE id = 1")
    with pytest.raises(SchemaChanged, match="column w was added"):
        ps.catch_up()
    with pytest.raises(SchemaChanged, match="column w was added"):
        ps.resync("shop", "public.t")
    ps.resume("shop")
    ps.catch_up()
    assert found(ps) == expected(db)
    assert found(ps, "other") == expected(db, "other")
    assert ps.verify().ok
