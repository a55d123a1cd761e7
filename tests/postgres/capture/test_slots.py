"""Slots are made, shown, moved and dropped; never under somebody who reads them, never past what is captured."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import penstock
from penstock.capture import attach
from penstock.capture.connection import connect
from penstock.capture.slot import advance_slot, create_slot, drop_slot, list_slots, read_slot, wait_until_free
from penstock.cli.main import app
from penstock.errors import ConfigError, NotFound, PenstockError, SlotInUse, SlotLost
from penstock.lsn import Lsn


@pytest.fixture
def slot(db, source_db):
    created = create_slot(source_db, f"made_{db.info.dbname}", timeout=5)
    created.connection.close()
    return f"made_{db.info.dbname}", created.consistent_point


def end_of_log(db) -> Lsn:
    return Lsn.parse(db.execute("SELECT pg_current_wal_lsn()::text").fetchone()[0])


@pytest.mark.since(17, "a slot knows since when nobody reads it")
def test_a_slot_is_listed_with_what_the_server_knows(db, source_db, slot):
    name, start = slot
    with connect(source_db) as connection:
        assert name in [one.name for one in list_slots(connection)]
        found = read_slot(connection, name)
        assert (found.confirmed_lsn, found.plugin, found.database) == (start, "pgoutput", db.info.dbname)
        assert (found.active, found.lost, found.failover, found.wal_status) == (False, None, False, "reserved")
        assert found.inactive_since is not None
        drop_slot(connection, name)
        assert read_slot(connection, name) is None


@pytest.mark.since(11, "pg_replication_slot_advance")
def test_a_slot_moves_forward_only_and_not_past_what_is_durable(db, source_db, slot):
    name, start = slot
    db.execute("CREATE TABLE t (a int); INSERT INTO t SELECT generate_series(1, 100)")
    end = end_of_log(db)
    middle = Lsn((start + end) // 2)
    with connect(source_db) as connection:
        for to, said, options in [
            (start, "only forward", {}),
            (Lsn(1), "only forward", {}),
            (Lsn(end + (1 << 30)), "At most", {}),
            (end, "Capture first", {"durable": middle}),
        ]:
            with pytest.raises(ConfigError) as refused:
                advance_slot(connection, name, to, **options)
            assert said in refused.value.hint
            assert read_slot(connection, name).confirmed_lsn == start
        assert advance_slot(connection, name, middle, durable=middle).confirmed_lsn >= start
        assert advance_slot(connection, name, end, durable=middle, force=True).confirmed_lsn == end
        with pytest.raises(NotFound):
            advance_slot(connection, "no_such_slot", end)


def test_a_slot_that_is_read_stays_where_it_is(db, source_db, make_source, monkeypatch):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t", slot="is_read", snapshot_mode="never")
    source.open()
    db.execute("INSERT INTO t VALUES (1)")
    monkeypatch.setattr("penstock.capture.slot.LEAVE_TIME", 0.1)
    with connect(source_db) as connection, pytest.raises(SlotInUse) as refused:
        advance_slot(connection, "is_read", end_of_log(db))
    assert refused.value.transient


@pytest.mark.since(17, "failover slots")
def test_the_failover_flag_is_set_at_creation(db, make_source):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    make_source("t", slot="failing_over", failover=True).open()
    assert db.execute("SELECT failover FROM pg_replication_slots WHERE slot_name = 'failing_over'").fetchone() == (
        True,
    )


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["slots", *arguments], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.mark.since(13, "wal_status")
def test_the_command_line_needs_no_home_for_a_server(db, source_db, tmp_path):
    at = ("--dsn", source_db, "--home", str(tmp_path / "none"))
    name = f"cli_{db.info.dbname}"
    assert "starts at" in run("create", name, *at)
    listed = {one["slot"]: one for one in json.loads(run("list", "--json", *at))}
    assert (listed[name]["source"], listed[name]["state"]) == (None, "reserved, idle")
    assert "reserved" in run("status", name, *at)
    db.execute("CREATE TABLE t (a int)")
    end = end_of_log(db)
    assert str(end) in run("advance", name, str(end), *at)
    assert "dropped" in run("drop", name, *at)
    with pytest.raises(PenstockError, match="no replication slot"):
        run("drop", name, *at)


@pytest.mark.since(11, "pg_replication_slot_advance")
def test_the_command_line_guards_the_slot_of_a_source(db, source_db, catalog_db, tmp_path):
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with penstock.connect(home=tmp_path, catalog=catalog_db) as session:
        session.add_source("shop", source_db, tables=["t"])
        owned = session.status().sources[0]
    at = ("--home", str(tmp_path), "--catalog", catalog_db)
    assert [one["source"] for one in json.loads(run("list", "--json", *at))] == ["shop"]
    assert "shop" in run("status", owned.slot, *at)
    db.execute("INSERT INTO t VALUES (1)")
    end = end_of_log(db)
    with pytest.raises(ConfigError, match="are captured"):
        run("advance", owned.slot, str(end), *at)
    with pytest.raises(ConfigError, match="belongs to source shop"):
        run("drop", owned.slot, *at)
    with pytest.raises(ConfigError, match="no source other"):
        run("drop", "any", "--source", "other", *at)
    assert "are lost to shop" in run("advance", owned.slot, str(end), "--force", *at)
    assert "dropped" in run("drop", owned.slot, "--force", *at)
    assert [one["state"] for one in json.loads(run("list", "--json", *at))] == ["missing"]


@pytest.mark.since(11, "a source needs no option about TRUNCATE")
@pytest.mark.parametrize("way", ["recover", "recreate"])
def test_a_lost_slot_is_made_anew_and_everything_copied_again(way, db, source_db, catalog_db, tmp_path):
    db.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    at = ("--home", str(tmp_path), "--catalog", catalog_db)
    with penstock.connect(home=tmp_path, catalog=catalog_db) as session:
        session.add_source("shop", source_db, tables=["t"])
        lost = session.status().sources[0].slot
    run("drop", lost, "--force", *at)
    db.execute("INSERT INTO t VALUES (2); DELETE FROM t WHERE id = 1")  # nobody will ever read these changes
    with penstock.connect(home=tmp_path, catalog=catalog_db) as session:
        with pytest.raises(SlotLost) as said:
            session.catch_up()
        assert "slots recover" in said.value.hint
    assert "captured again" in run(way, lost, "--yes", *at), "the error names the slot"
    db.execute("INSERT INTO t VALUES (3)")
    with penstock.connect(home=tmp_path, catalog=catalog_db) as session:
        session.catch_up()
        rows = session.engine.reader.rows_arrow(*session.engine.position("t")[:2]).to_pylist()
        assert sorted(row["id"] for row in rows) == [2, 3]
        assert (session.status().sources[0].slot == lost) == (way == "recover")
    assert db.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()").fetchone() == (
        1,
    )


@pytest.mark.since(11, "pg_replication_slot_advance")
def test_a_slot_that_is_moved_while_its_last_reader_leaves_is_no_other_history(db, make_source, drain, monkeypatch):
    """The reader's last word may reach the server after its successor has looked at the slot."""
    db.execute("CREATE TABLE t (id int PRIMARY KEY)")
    source = make_source("t")
    source.open()
    received = drain(source)
    db.execute("INSERT INTO t VALUES (1)")
    drain(source, received)
    marked = Lsn(received.rows("public.t")[-1]["_lsn"])
    db.execute("CREATE TABLE elsewhere AS SELECT 1 AS a")
    while source.checkpoint().lsn <= marked:
        drain(source, received)
    state = source.checkpoint()
    source.close()

    def leaves(connection, name, **more):
        db.execute("SELECT pg_replication_slot_advance(%s, %s)", [name, str(marked)])
        return wait_until_free(connection, name, **more)

    monkeypatch.setattr(attach, "wait_until_free", leaves)
    source.restore(state)
    source.open()
    db.execute("INSERT INTO t VALUES (2)")
    drain(source, received)
    assert [row["id"] for row in received.rows("public.t")] == [1, 2]
