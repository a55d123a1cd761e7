"""A promoted standby in place of its primary: capture goes on where no captured commit is missing, and refuses else.

The primary is one for all tests, with a database and a standby for each.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from faults.consumer import SETUP, Consumer, write
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from servers import bring_up, make_standby, promote, shut_down, start_server

import penstock
from penstock.capture import pull, recovery
from penstock.catalog import relations, sources
from penstock.embedded import EmbeddedPostgres
from penstock.errors import AlreadyExists, SlotLost
from penstock.failpoint import FailpointReached, arm
from penstock.lsn import Lsn

pytestmark = pytest.mark.since(17, "failover slots")

_numbers = itertools.count(1)
_SYNCED = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s AND synced AND NOT temporary"


def application(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True)


def until(reached: Callable[[], bool], within: float = 30) -> None:
    deadline = time.monotonic() + within
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Pair:
    """A primary and its standby; the standby takes the primary's place."""

    def __init__(self, primary: EmbeddedPostgres, folder: Path) -> None:
        self.name = f"shop_{next(_numbers)}"
        self.primary = primary
        self.consumers: list[Consumer] = []
        with application(primary.dsn) as db:
            db.execute(f"CREATE DATABASE {self.name}")
        self.dsn = primary.dsn_of(self.name)
        with application(self.dsn) as db:
            db.execute(SETUP)
        self.standby = make_standby(primary, folder / "standby", f"{self.name}_standby", self.name)
        self.promoted_dsn = self.standby.dsn_of(self.name)

    @property
    def either_dsn(self) -> str:
        """Whichever of the two takes writes."""
        found = [conninfo_to_dict(dsn) for dsn in (self.dsn, self.promoted_dsn)]
        hosts, ports = (",".join(str(one[name]) for one in found) for name in ("host", "port"))
        return make_conninfo(self.dsn, host=hosts, port=ports, target_session_attrs="read-write")

    def consumer(self, dsn: str, **options: Any) -> Consumer:
        self.consumers.append(Consumer(dsn, self.name, failover=True, **options))
        return self.consumers[-1]

    def captured(self, dsn: str, **options: Any) -> Consumer:
        """A consumer with a first transaction, whose slot the standby has."""
        consumer = self.consumer(dsn, **options)
        consumer.catch_up()
        with application(self.dsn) as db:
            write(db, 1)
        consumer.catch_up()
        self.wait_for_copy(consumer)
        return consumer

    def moved(self, consumer: Consumer, dsn: str, **options: Any) -> Consumer:
        """The same caller, pointed at another server."""
        consumer.close()
        other = self.consumer(dsn, **options)
        other.durable, other.state = consumer.durable, consumer.state
        return other

    def wait_for_slot(self, slot: str, capture: Callable[[], object]) -> None:
        """The standby has a copy of the slot that it keeps when it is promoted; for that the slot must move."""
        with application(self.dsn) as there, application(self.promoted_dsn) as here:

            def synced() -> bool:
                there.execute("SELECT pg_log_standby_snapshot()")
                capture()
                here.execute("SELECT pg_reload_conf()")  # wakes the worker, which sleeps up to 30 s
                return here.execute(_SYNCED, [slot]).fetchone() is not None

            until(synced)

    def wait_for_copy(self, consumer: Consumer) -> None:
        def capture() -> None:
            consumer.catch_up()
            consumer.close()  # a pull moves the slot when it ends

        self.wait_for_slot(self.name, capture)

    def wait_for_standby(self) -> None:
        with application(self.dsn) as there, application(self.promoted_dsn) as here:
            there.execute("SELECT pg_logical_emit_message(true, 'test', '')")  # what is written is then flushed as well
            (end,) = there.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
            replayed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            until(lambda: here.execute(replayed, [end]).fetchone()[0])

    def leave_standby_behind(self) -> None:
        """What is written from here on never gets there."""
        with application(self.promoted_dsn) as here:
            here.execute("ALTER SYSTEM SET primary_conninfo = ''")
            here.execute("SELECT pg_reload_conf()")
            until(lambda: here.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone() == (0,))

    def fail_over(self) -> None:
        shut_down(self.primary, "immediate")
        promote(self.standby)


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    server = start_server(tmp_path_factory.mktemp("failover") / "primary")
    yield server
    server.stop()


@pytest.fixture
def pair(primary: EmbeddedPostgres, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(primary, tmp_path)
    yield pair
    for consumer in pair.consumers:
        consumer.close()
    pair.standby.stop()
    bring_up(primary)
    with application(primary.dsn) as db:
        db.execute("ALTER SYSTEM RESET ALL")
        db.execute("SELECT pg_reload_conf()")
        db.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        until(lambda: db.execute("SELECT count(*) FROM pg_replication_slots WHERE active").fetchone() == (0,))
        db.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


@pytest.mark.parametrize("reader", ["stream", "pull"])
def test_a_standby_that_has_everything_goes_on(pair, reader, monkeypatch):
    """Its copy of the slot is older than the checkpoint: what comes again is known, and skipped."""
    monkeypatch.setattr(pull, "_LAST", 0)
    consumer = pair.captured(pair.dsn, reader=reader)
    with application(pair.dsn) as db:
        write(db, 2)
        consumer.catch_up()
        write(db, 3)
    pair.wait_for_standby()
    pair.fail_over()
    consumer = pair.moved(consumer, pair.promoted_dsn, reader=reader)
    with application(pair.promoted_dsn) as db:
        consumer.catch_up()
        consumer.assert_exact(db)
        write(db, 4)
        consumer.catch_up()
        consumer.assert_exact(db)
        assert consumer.state.timeline == 2


def test_a_connection_that_names_both_servers_finds_the_promoted_one(pair):
    """The reader is never told: while neither takes writes, it tries again."""
    consumer = pair.captured(pair.either_dsn, reconnect=True)
    with application(pair.dsn) as db:
        consumer.catch_up()
        write(db, 2)
    pair.wait_for_standby()
    shut_down(pair.primary, "immediate")
    until(lambda: consumer.step() or consumer.source.phase == "reconnecting")
    promote(pair.standby)
    with application(pair.promoted_dsn) as db:
        write(db, 3)
        until(lambda: consumer.step() or consumer.source.phase == "streaming")
        consumer.catch_up()
        consumer.assert_exact(db)
    assert not consumer.errors


def test_a_standby_is_waited_for(pair):
    """A connection that leads to the standby before it is promoted."""
    consumer = pair.consumer(pair.dsn)
    consumer.catch_up()
    pair.wait_for_copy(consumer)
    consumer = pair.moved(consumer, pair.promoted_dsn)
    consumer.step()
    assert "is a standby" in str(consumer.errors[-1])
    pair.wait_for_standby()
    pair.fail_over()
    with application(pair.promoted_dsn) as db:
        write(db, 1)
        consumer.catch_up()
        consumer.assert_exact(db)


@pytest.mark.parametrize("overtaken", [False, True], ids=["behind us", "past us again"])
def test_a_standby_that_lacks_captured_commits_is_refused(pair, overtaken):
    consumer = pair.captured(pair.dsn)
    with application(pair.dsn) as db:
        pair.leave_standby_behind()
        write(db, 2)
        consumer.catch_up()
    pair.fail_over()
    consumer = pair.moved(consumer, pair.promoted_dsn)
    with application(pair.promoted_dsn) as db:
        if overtaken:
            for tx in range(3, 9):
                write(db, tx, rows=200)
        with pytest.raises(SlotLost, match="timeline 1 to 2") as lost:
            consumer.catch_up()
        assert "lacks commits" in lost.value.hint
        assert "penstock slots recover" in lost.value.hint


def test_what_was_read_and_not_yet_delivered_counts(pair):
    """Commits that the promoted server never had are in memory, behind a position that it has."""
    consumer = pair.captured(pair.either_dsn, reconnect=True)
    with application(pair.dsn) as db:
        consumer.catch_up()
        pair.wait_for_standby()
        pair.leave_standby_behind()
        write(db, 2, rows=500)
        source, durable = consumer.source, consumer.source.checkpoint()
        until(lambda: source.poll(max_records=1, timeout=0.05) is not None)
    pair.fail_over()
    source.acknowledge(durable)  # the connection is lost, and there is still much to deliver
    assert source.phase == "reconnecting"
    with application(pair.promoted_dsn) as db:
        for tx in range(12, 19):
            write(db, tx, rows=200)
        with pytest.raises(SlotLost, match="which was read already") as lost:
            until(lambda: source.poll(max_records=1, timeout=0.0) is None)
        assert "last checkpoint that was made durable" in lost.value.hint
        consumer.close()
        consumer.catch_up()
        consumer.assert_exact(db)


# A home --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ps(tmp_path: Path, catalog_db: str) -> Iterator[penstock.Session]:
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as session:
        yield session


def point_at(ps: penstock.Session, dsn: str, folder: Path, **options: Any) -> list[str]:
    """What a user does: the file of sources gets another connection, and is applied."""
    file = folder / "sources.yaml"
    given = "".join(f"    {name}: {value}\n" for name, value in options.items())
    file.write_text(f"sources:\n  shop:\n    dsn: {dsn}\n{given}    schemas: {{public: ['*']}}\n")
    return [step for one in ps.apply_sources(file) for step in one.steps]


def assert_exact(ps: penstock.Session, dsn: str) -> None:
    ps.catch_up()
    with application(dsn) as db:
        for table in ("accounts", "events"):
            relation, position, _ = ps.engine.position(table)
            rows = Counter(tuple(row.values()) for row in ps.engine.reader.rows_arrow(relation, position).to_pylist())
            assert rows == Counter(db.execute(f"SELECT * FROM {table}").fetchall())


def test_a_home_goes_on_with_another_connection(pair, ps, tmp_path):
    ps.add_source("shop", pair.dsn, failover=True)
    slot = ps.status().sources[0].slot
    with application(pair.dsn) as db:
        write(db, 1)
        ps.catch_up()
        pair.wait_for_slot(slot, ps.catch_up)
        write(db, 2)
        ps.catch_up()
        write(db, 3)
    here = relations.find(ps.catalog, "events").id
    pair.wait_for_standby()
    pair.fail_over()
    with pytest.raises(AlreadyExists, match="other settings") as other:
        ps.add_source("shop", pair.promoted_dsn, failover=True)
    assert "penstock source apply" in other.value.hint
    assert point_at(ps, pair.promoted_dsn, tmp_path, failover="true") == ["another connection"]
    with application(pair.promoted_dsn) as db:
        write(db, 4)
    assert_exact(ps, pair.promoted_dsn)
    assert relations.find(ps.catalog, "events").id == here, "nothing was copied again"


def test_a_home_forgets_what_it_had_only_read(pair, ps, monkeypatch):
    """Past what is durable here it has read commits that the promoted server lacks: it goes back by itself."""
    ps.add_source("shop", pair.either_dsn, failover=True)
    with application(pair.dsn) as db:
        write(db, 1)
        pair.wait_for_slot(ps.status().sources[0].slot, ps.catch_up)
        pair.wait_for_standby()
        pair.leave_standby_behind()
        write(db, 2)
        ingest = ps.engine.captures._open["shop"]
        target = ingest.server_position()
        while ingest._postgres.checkpoint().lsn < target:
            ingest._step(0.05, enough=Lsn(2 * target))
        assert ingest.captured < target
    pair.fail_over()
    with application(pair.promoted_dsn) as db:
        for tx in range(3, 9):
            write(db, tx, rows=200)
    monkeypatch.setattr(ingest, "server_position", lambda: Lsn(2 * target))  # lost on the way, not at the start
    assert_exact(ps, pair.promoted_dsn)


def test_a_standby_without_the_slot(pair, ps, tmp_path):
    """The tables are copied again, what is over them stays, and the next failover finds the slot."""
    with application(pair.promoted_dsn) as here:
        here.execute("ALTER SYSTEM SET sync_replication_slots = off")
        here.execute("SELECT pg_reload_conf()")
    ps.add_source("shop", pair.dsn, failover=True)
    ps.create_stream_table("view", "SELECT tx, k FROM events")
    with application(pair.dsn) as db:
        write(db, 1)
    ps.catch_up()
    pair.wait_for_standby()
    pair.fail_over()
    point_at(ps, pair.promoted_dsn, tmp_path, failover="true")
    with pytest.raises(SlotLost, match="does not exist") as lost:
        ps.catch_up()
    assert "penstock slots recover" in lost.value.hint
    with application(pair.promoted_dsn) as db:
        write(db, 2)
        assert ps.recovery("shop").way == "resync"
        ps.recover("shop")
        assert_exact(ps, pair.promoted_dsn)
        assert keeps_failover(db, ps)
        write(db, 3)
    ps.engine.captures.close()
    assert_exact(ps, pair.promoted_dsn)


def test_a_home_past_the_promoted_server(pair, ps, tmp_path):
    """Nothing is done to its tables before the server is known; then they can be copied from there."""
    ps.add_source("shop", pair.dsn, failover=True)
    ps.create_stream_table("view", "SELECT tx, k FROM events")
    with application(pair.dsn) as db:
        write(db, 1)
        pair.wait_for_slot(ps.status().sources[0].slot, ps.catch_up)
        pair.leave_standby_behind()
        db.execute("CREATE TABLE later (id int PRIMARY KEY); INSERT INTO later VALUES (1)")
        write(db, 2)
        ps.catch_up()
        assert relations.find(ps.catalog, "later").ended is None
    pair.fail_over()
    point_at(ps, pair.promoted_dsn, tmp_path, failover="true")
    for _ in range(2):
        with pytest.raises(SlotLost, match="timeline 1 to 2"):
            ps.catch_up()
    assert relations.find(ps.catalog, "later").ended is None
    with pytest.raises(SlotLost, match="positions of source shop would go back") as lost:
        ps.recover("shop")
    assert "penstock slots recreate" in lost.value.hint

    with application(pair.promoted_dsn) as db:
        for tx in range(3, 9):
            write(db, tx, rows=200)
        found = ps.recovery("shop")
        assert found.way == "resync"
        assert "timeline 1 to 2" in str(found)
        ps.recover("shop")
        assert_exact(ps, pair.promoted_dsn)
        assert relations.find(ps.catalog, "later").ended is not None
        write(db, 10)
    ps.engine.captures.close()
    assert_exact(ps, pair.promoted_dsn)
    assert ps.recovery("shop").way == "none"


def test_a_copy_under_way_begins_anew(pair, ps, tmp_path):
    """A range may be of a later moment than the position, so none is kept: the promoted server may not have had it."""
    options = {"failover": True, "copy_range_blocks": 2, "copy_workers": 1}
    ps.add_source("shop", pair.dsn, ["accounts"], **options)
    with application(pair.dsn) as db:
        write(db, 1)
        pair.wait_for_slot(ps.status().sources[0].slot, ps.catch_up)
        with arm("copy.after_commit"), pytest.raises(FailpointReached):
            ps.add_source("shop", pair.dsn, ["public.*"], **options)
    before = copied_ranges(ps)
    assert before
    pair.wait_for_standby()
    pair.fail_over()
    with application(pair.promoted_dsn) as db:
        write(db, 2)
    with arm("copy.after_commit"), pytest.raises(FailpointReached):
        point_at(ps, pair.promoted_dsn, tmp_path, **{**options, "failover": "true"})
    assert copied_ranges(ps).isdisjoint(before)
    assert_exact(ps, pair.promoted_dsn)


def copied_ranges(ps: penstock.Session) -> set[int]:
    """The moments of those that are done."""
    return {row["lsn"] for row in ps.catalog.all("SELECT lsn FROM copy_ranges WHERE lsn IS NOT NULL")}


def test_a_slot_that_is_replayed_stays_one_for_failover(pair, ps):
    ps.add_source("shop", pair.dsn, failover=True)
    ps.engine.captures.close()
    source = sources.get(ps.catalog, "shop")
    recovery.keep(source)
    recovery.replay(source, recovery.Recovery("shop", "replay", source.captured, None, recovery.kept_slot(source.slot)))
    with application(pair.dsn) as db:
        assert keeps_failover(db, ps)
    assert_exact(ps, pair.dsn)


def keeps_failover(db: psycopg.Connection[Any], ps: penstock.Session) -> bool:
    slot = ps.status().sources[0].slot
    return db.execute("SELECT failover FROM pg_replication_slots WHERE slot_name = %s", [slot]).fetchone() == (True,)


def test_a_pull_does_not_get_ahead_of_the_standby(pair, monkeypatch):
    """The server holds back readers of the slot, but not those of the copies that a pull reads from."""
    monkeypatch.setattr(pull, "_LAST", 0)
    with application(pair.dsn) as db:
        db.execute(f"ALTER SYSTEM SET synchronized_standby_slots = '{pair.name}_standby'")
        db.execute("SELECT pg_reload_conf()")
    consumer = pair.consumer(pair.dsn, reader="pull")
    consumer.catch_up()
    with application(pair.dsn) as db:
        write(db, 1)
        pair.wait_for_copy(consumer)
        pair.leave_standby_behind()
        write(db, 2)
        for _ in range(50):
            consumer.step(acknowledge=True)
    pair.fail_over()
    consumer = pair.moved(consumer, pair.promoted_dsn)
    with application(pair.promoted_dsn) as db:
        write(db, 3)
        consumer.catch_up()
        consumer.assert_exact(db)
