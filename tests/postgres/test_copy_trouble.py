"""What goes wrong around a copy is repaired by the call that is repeated, and never makes anything worse."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock import failpoint
from penstock.capture import attach, home_copy
from penstock.capture.checkpoint import Checkpoint
from penstock.capture.ingest import Ingest
from penstock.capture.source_at import SourceAt
from penstock.catalog import relations, sources
from penstock.errors import (
    AlreadyExists,
    ChangedMeanwhile,
    ConfigError,
    DecodeError,
    NotYet,
    SlotLost,
    SourceUnreachable,
)
from penstock.failpoint import FailpointReached
from penstock.lake.settling import settle_source

pytestmark = pytest.mark.since(11, "a source needs no option about TRUNCATE")
Db = psycopg.Connection[Any]


@pytest.fixture
def db(source_db: str) -> Iterator[Db]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v numeric); INSERT INTO t VALUES (1, 1), (2, 2)")
        connection.execute("CREATE TABLE o (id int PRIMARY KEY); INSERT INTO o VALUES (7)")
        yield connection


def assert_equal(ps: penstock.Session, dsn: str, *names: str) -> None:
    with SourceAt(dsn) as server:
        lease = ps.engine.captures.catch_up("shop", server.lsn)
        settle_source(ps.engine.reader, ps.catalog, lease, "shop")
        for name in names:
            rows = ps.engine.reader.rows_arrow(relations.find(ps.catalog, name), server.lsn)
            found = Counter(tuple(row.values()) for row in rows.to_pylist())
            assert found == Counter(server.rows(f"SELECT * FROM public.{name}"))


def here(ps: penstock.Session, name: str) -> list[dict[str, Any]]:
    """All that is captured now."""
    lease = ps.engine.captures.catch_up("shop")
    settle_source(ps.engine.reader, ps.catalog, lease, "shop")
    cut = sources.get(ps.catalog, "shop").settled
    assert cut is not None
    return ps.engine.reader.rows_arrow(relations.find(ps.catalog, name), cut).to_pylist()


def stop_resync(ps: penstock.Session, table: str) -> None:
    """A crash just after the old copy is out of sight."""
    with failpoint.arm("tables.after_commit"), pytest.raises(FailpointReached):
        ps.resync("shop", table)
    ps.engine.captures.close()


def read_by_a_view(ps: penstock.Session, table: str) -> None:
    with ps.catalog.lease("test") as lease, ps.catalog.commit(lease, None, "view") as commit:
        schema = relations.find(ps.catalog, table).schema
        view = relations.add(commit, "totals", "view", "views/totals", schema)
        commit.connection.execute(
            "INSERT INTO dependencies (view_id, input_id, columns, shape) VALUES (%s, %s, '{id}', %s)",
            (view, relations.find(ps.catalog, table).id, schema.to_json()),
        )


def test_a_resync_that_fails_leaves_the_source_and_goes_on(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    before = sources.get(ps.catalog, "shop")

    def fail(*_: object) -> None:
        raise SourceUnreachable("the server went away")

    with monkeypatch.context() as broken:
        broken.setattr(home_copy, "copy_again", fail)
        with pytest.raises(SourceUnreachable):
            ps.resync("shop", "t")
    assert sources.get(ps.catalog, "shop").slot == before.slot
    db.execute("INSERT INTO t VALUES (3, 3)")
    ps.add_source("shop", source_db, tables=["t"])
    assert_equal(ps, source_db, "t")


def test_a_table_that_lost_its_key_can_be_left_out(ps: penstock.Session, db: Db, source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t", "o"])
    db.execute("ALTER TABLE t DROP CONSTRAINT t_pkey")
    with pytest.raises(psycopg.Error):
        db.execute("UPDATE t SET v = 3")
    ps.add_source("shop", source_db, tables=["o"])
    db.execute("UPDATE t SET v = 3")
    assert_equal(ps, source_db, "o")


@pytest.mark.since(13, "a partitioned table is published as one")
def test_leaves_are_not_checked_as_their_root(ps: penstock.Session, db: Db, source_db: str) -> None:
    db.execute("CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    db.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
    db.execute("ALTER TABLE p1 REPLICA IDENTITY FULL")
    ps.add_source("shop", source_db, tables=["public.p"], partitions="leaves")
    db.execute("INSERT INTO p VALUES (1)")
    assert_equal(ps, source_db, "p1")


def test_a_publication_that_another_source_will_drop_is_not_used(ps: penstock.Session, db: Db, source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"], publication_name="shared")
    with pytest.raises(AlreadyExists, match="publication shared"):
        ps.add_source("other", source_db, tables=["o"], publication_name="shared")
    db.execute("INSERT INTO t VALUES (3, 3)")
    assert_equal(ps, source_db, "t")


def test_a_dropped_table_does_not_stop_an_interrupted_copy(ps: penstock.Session, db: Db, source_db: str) -> None:
    with failpoint.arm("copy.after_commit", after=1), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["public.*"], copy_workers=1)
    db.execute("DROP TABLE t")
    db.execute("INSERT INTO o VALUES (8)")
    ps.add_source("shop", source_db, tables=["public.*"], copy_workers=1)
    assert_equal(ps, source_db, "o")


def test_other_tables_than_those_of_an_interrupted_start(ps: penstock.Session, db: Db, source_db: str) -> None:
    with failpoint.arm("capture.slot_created"), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t"])
    ps.add_source("shop", source_db, tables=["t", "o"])
    assert_equal(ps, source_db, "t", "o")


@pytest.mark.since(15, "row filters")
def test_a_row_that_enters_the_filter_with_a_value_out_of_line(ps: penstock.Session, db: Db, source_db: str) -> None:
    db.execute("CREATE TABLE f (id int PRIMARY KEY, big text); ALTER TABLE f ALTER big SET STORAGE EXTERNAL")
    db.execute("INSERT INTO f SELECT i, repeat(i::text, 5000) FROM generate_series(1, 5) i")
    db.execute("INSERT INTO f VALUES (101, 'x')")
    ps.add_source("shop", source_db, tables=["public.f"], publication_row_filter={"public.f": "id > 100"})
    db.execute("UPDATE f SET big = 'other' WHERE id = 101")
    db.execute("UPDATE f SET id = 201 WHERE id = 1")
    with pytest.raises(DecodeError, match=r"public\.f came into its row filter without its value of big"):
        ps.engine.captures.catch_up("shop")
    db.execute("ALTER TABLE f REPLICA IDENTITY FULL")
    ps.resync("shop", "f")
    db.execute("UPDATE f SET id = 202 WHERE id = 2; UPDATE f SET id = 3000 + id WHERE id = 101")
    values = {row["id"]: row["big"] for row in here(ps, "f")}
    assert values == {3101: "other", 201: "1" * 5000, 202: "2" * 5000}


def test_a_table_with_a_value_that_does_not_fit_its_form_is_copied_again_as_text(
    ps: penstock.Session, db: Db, source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "o"])
    db.execute("INSERT INTO t VALUES (5, 'NaN')")
    ps.engine.captures.catch_up("shop")
    assert ps.events("shop")[0].kind == "resync"
    db.execute("INSERT INTO t VALUES (6, 'NaN'); UPDATE t SET v = 9 WHERE id = 5")
    assert {row["id"]: row["v"] for row in here(ps, "t")} == {1: "1", 2: "2", 5: "9", 6: "NaN"}


def test_a_table_that_is_copied_again_is_not_left_out_while_views_read_it(
    ps: penstock.Session, db: Db, source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t", "o"])
    read_by_a_view(ps, "t")
    stop_resync(ps, "t")
    with pytest.raises(ConfigError, match="stream tables read it: totals"):
        ps.add_source("shop", source_db, tables=["o"])
    ps.add_source("shop", source_db, tables=["t", "o"])
    assert_equal(ps, source_db, "t", "o")


@pytest.mark.parametrize(("option", "value"), [("consolidate", "flush"), ("toast_handling", "sentinel")])
def test_options_that_a_home_does_not_follow_are_refused(
    ps: penstock.Session, db: Db, source_db: str, option: str, value: str
) -> None:
    with pytest.raises(NotYet, match=option):
        ps.add_source("shop", source_db, tables=["t"], **{option: value})


@pytest.mark.parametrize("name", ["a/b", "../../../x", "..", "%s{}", "A.b é "])
def test_a_table_stays_in_its_own_folder_whatever_its_name(
    ps: penstock.Session, db: Db, source_db: str, tmp_path: Path, name: str
) -> None:
    db.execute(f'CREATE TABLE "{name}" (id int PRIMARY KEY); INSERT INTO "{name}" VALUES (1)')
    ps.add_source("shop", source_db, tables=[f'public."{name}"'])
    db.execute(f'INSERT INTO "{name}" VALUES (2)')
    assert here(ps, f"public.{name}") == [{"id": 1}, {"id": 2}]
    folders = {path.parents[4] for path in tmp_path.rglob("*.parquet")}  # then year, month, day, hour
    assert folders == {tmp_path / "home" / "changelog" / "tables" / "shop"}


@pytest.mark.parametrize("name", ['"my.schema".t', 'public."say ""t"""'])
def test_a_name_that_cannot_be_written_down_is_refused(ps: penstock.Session, db: Db, source_db: str, name: str) -> None:
    db.execute('CREATE SCHEMA "my.schema"')
    db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY)")
    with pytest.raises(NotYet, match="or a quote in its own"):
        ps.add_source("shop", source_db, tables=[name])
    assert sources.every(ps.catalog) == []


@pytest.mark.since(15, "row filters")
@pytest.mark.parametrize("key", ["T", 'public."T"'])
def test_a_selection_holds_however_its_table_is_spelled(ps: penstock.Session, db: Db, source_db: str, key: str) -> None:
    db.execute('CREATE TABLE "T" (id int PRIMARY KEY, v text); INSERT INTO "T" VALUES (1), (200)')
    options = {"publication_row_filter": {key: "id > 100"}, "publication_column_list": {key: ["id"]}}
    ps.add_source("shop", source_db, tables=['public."T"'], **options)
    db.execute('INSERT INTO "T" VALUES (2), (201)')
    ps.resync("shop", "T")
    assert here(ps, "public.T") == [{"id": 200}, {"id": 201}]


def test_a_table_stays_in_sight_when_its_source_has_no_slot_any_more(
    ps: penstock.Session, db: Db, source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    ps.engine.captures.close()
    db.execute("SELECT pg_drop_replication_slot(%s)", [sources.get(ps.catalog, "shop").slot])
    with pytest.raises(SlotLost, match="does not exist"):
        ps.resync("shop", "t")
    assert relations.find(ps.catalog, "t").table == "public.t"
    ps.recreate_slot("shop")
    assert_equal(ps, source_db, "t")


def test_a_copy_that_goes_on_leaves_no_lock_behind(ps: penstock.Session, db: Db, source_db: str) -> None:
    db.execute("INSERT INTO t SELECT i, i FROM generate_series(3, 3000) i")
    with failpoint.arm("copy.after_commit", after=2), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t"], copy_range_blocks=2, copy_workers=2)
    ps.engine.captures.catch_up("shop")
    held = """SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
              WHERE l.relation = 't'::regclass AND a.backend_type <> 'autovacuum worker'"""
    assert db.execute(held).fetchone() == (0,)
    assert_equal(ps, source_db, "t")


def test_a_truncate_that_waits_for_the_copy_does_not_stop_it(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Ingest._join

    def truncate() -> None:
        with psycopg.connect(source_db, autocommit=True) as application:
            application.execute("TRUNCATE t")

    waiting = threading.Thread(target=truncate)

    def join_later(ingest: Ingest, there: Checkpoint) -> None:
        waiting.start()
        while db.execute("SELECT FROM pg_locks WHERE relation = 't'::regclass AND NOT granted").fetchone() is None:
            time.sleep(0.01)
        db.execute("SET lock_timeout = 1")  # nobody gets past it any more
        with pytest.raises(psycopg.errors.LockNotAvailable):
            db.execute("SELECT FROM t")
        join(ingest, there)

    ps.add_source("shop", source_db, tables=["o"])
    monkeypatch.setattr(Ingest, "_join", join_later)
    ps.add_source("shop", source_db, tables=["o", "t"])
    waiting.join()
    db.execute("INSERT INTO t VALUES (9, 9)")
    assert_equal(ps, source_db, "t", "o")


CHANGES = {
    "altered": "ALTER TABLE t ADD c int",
    "truncated": "TRUNCATE t; INSERT INTO t VALUES (1, 5)",
    "made again": "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, w text); INSERT INTO t VALUES (1, 'w')",
}


@pytest.mark.parametrize("first", [True, False], ids=["first copy", "copied again"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_ddl_while_a_copy_is_prepared_is_waited_for(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch, change: str, first: bool
) -> None:
    ps.add_source("shop", source_db, tables=["o", *([] if first else ["t"])])
    left = [change]
    changed_before_the_lock(monkeypatch, db, left)
    if first:
        ps.add_source("shop", source_db, tables=["o", "t"])
    else:
        ps.resync("shop", "t")
    assert left == []
    assert_equal(ps, source_db, "o", "t")
    db.execute("DELETE FROM t; INSERT INTO o VALUES (9)")
    assert_equal(ps, source_db, "o", "t")


def test_a_table_that_is_dropped_while_its_copy_is_prepared_ends(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ps.add_source("shop", source_db, tables=["o", "t"])
    changed_before_the_lock(monkeypatch, db, ["DROP TABLE t"])
    ps.resync("shop", "t")
    db.execute("INSERT INTO o VALUES (9)")
    assert_equal(ps, source_db, "o")
    assert [event.kind for event in ps.events("shop")] == ["ended"]


def test_ddl_that_does_not_end_is_told(
    ps: penstock.Session, db: Db, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed_before_the_lock(monkeypatch, db, [f"ALTER TABLE t ADD c{number} int" for number in range(100)])
    with pytest.raises(ChangedMeanwhile, match="was added"):
        ps.add_source("shop", source_db, tables=["t"])
    assert sources.every(ps.catalog) == []
    assert db.execute("SELECT FROM pg_replication_slots WHERE database = current_database()").fetchall() == []


def changed_before_the_lock(monkeypatch: pytest.MonkeyPatch, db: Db, changes: list[str]) -> None:
    """Each copy that is prepared meets one of the changes, as long as there are any."""
    lock = attach.open_snapshot

    def change_first(*arguments: Any) -> Any:
        if changes:
            db.execute(changes.pop(0))
        return lock(*arguments)

    monkeypatch.setattr(attach, "open_snapshot", change_first)
