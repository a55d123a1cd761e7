"""The changelog's upkeep changes no answer, loses nothing that is needed, and leaves no file behind."""

from __future__ import annotations

import itertools
import json
import logging
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from servers import NO_TRUNCATE, EmbeddedPostgres, drop_database
from typer.testing import CliRunner

import penstock
from penstock.catalog import attempts, changelog, descriptions, relations, stream_tables
from penstock.catalog.alerts import CHANNEL
from penstock.catalog.relations import Base
from penstock.catalog.stream_tables import Refreshed
from penstock.cli.main import app
from penstock.cut import Frontier
from penstock.errors import NotRetained, StorageDamaged, StorageFull
from penstock.failpoint import FailpointReached, arm
from penstock.lsn import Lsn
from penstock.refresh import maintenance, retention
from penstock.refresh.upkeep import Upkeep
from penstock.relation.home import Owed
from penstock.relation.segment import SegmentWriter

_SOURCE, _CATALOG = "changelog_source", "changelog_catalog"
_numbers = itertools.count(1)
AT_ONCE = {"changelog_retention": 0, "changelog_grace": 0}


class Shop:
    """A table with ten commits, each captured by itself, and its rows after each."""

    def __init__(self, home: Path, catalog_db: str) -> None:
        self.where = {"home": home, "catalog": catalog_db}
        self.states: dict[Frontier, Counter[Any]] = {}

    def live(self, source_db: str, db: psycopg.Connection[Any]) -> None:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        db.execute("INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i")
        with self.open() as ps:
            ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
            self.note(ps, db)
            for step in range(9):
                db.execute("UPDATE t SET v = v + 1 WHERE id %% 3 = %s", (step % 3,))
                db.execute("INSERT INTO t VALUES (%s, 7)", (100 + step,))
                db.execute("DELETE FROM t WHERE id = %s", (step + 1,))
                self.note(ps, db)

    def open(self, **config: Any) -> penstock.Session:
        return penstock.connect(**self.where, config=config)

    def note(self, ps: penstock.Session, db: psycopg.Connection[Any]) -> None:
        self.states[ps.catch_up()] = Counter(db.execute("SELECT * FROM t").fetchall())

    def check(self, ps: penstock.Session, since: int = 0) -> None:
        """Every frontier from a place on reads as the source was then."""
        for frontier, expected in list(self.states.items())[since:]:
            relation, position, _ = ps.engine.position("t", frontier)
            assert Counter(tuple(row.values()) for row in rows_at(ps, relation, position).to_pylist()) == expected

    def publish(self, ps: penstock.Session, place: int) -> None:
        """A base at one of the frontiers."""
        relation, position, _ = ps.engine.position("t", self.frontier(place))
        rows = rows_at(ps, relation, position)
        write_deltalake(ps.home.base(relation.folder), rows, mode="overwrite")
        version = len(relations.bases(ps.catalog, relation.id))
        with ps.catalog.lease("publish t") as lease, ps.catalog.commit(lease, None, "publish") as commit:
            relations.record_base(commit, relation.id, Base(position, version, rows.num_rows))

    def frontier(self, place: int) -> Frontier:
        return list(self.states)[place]


def rows_at(ps: penstock.Session, relation: relations.Relation, position: int) -> pa.Table:
    """Also before the base: base − changes."""
    reader = ps.engine.reader
    base = reader.base(relation)
    if base is None or position >= base.position:
        return reader.rows_arrow(relation, position)
    names = list(relation.schema.names)
    back = reader.changes_arrow(relation, position, base.position, names)
    total = Counter(
        tuple(row.values()) for row in reader.base_files(relation, base).rows(relation.schema.arrow()).to_pylist()
    )
    for row in back.to_pylist():
        total[tuple(row[name] for name in names)] -= row["_weight"]
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in total.elements()], relation.schema.arrow()
    )


def files(ps: penstock.Session) -> set[str]:
    return {ps.home.relative(file) for file in ps.home.changelog().glob("**/*.parquet")}


def recorded(ps: penstock.Session) -> set[str]:
    return {row["path"] for row in ps.catalog.all("SELECT path FROM segments")}


@pytest.fixture(scope="module")
def lived(
    source_server: EmbeddedPostgres, catalog_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """The one that all tests have copies of: nothing here captures any more, so one slot is enough for all."""
    home = tmp_path_factory.mktemp("changelog") / "home"
    with (
        psycopg.connect(source_server.dsn, autocommit=True) as source,
        psycopg.connect(catalog_server.dsn, autocommit=True) as catalogs,
    ):
        source.execute(f"CREATE DATABASE {_SOURCE}")
        catalogs.execute(f"CREATE DATABASE {_CATALOG}")
        shop = Shop(home, catalog_server.dsn_of(_CATALOG))
        with psycopg.connect(source_server.dsn_of(_SOURCE), autocommit=True) as db:
            shop.live(source_server.dsn_of(_SOURCE), db)
            yield shop
            mine = "FROM pg_replication_slots WHERE database = current_database()"
            db.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}")
        drop_database(catalogs, _CATALOG)
        drop_database(source, _SOURCE)


@pytest.fixture
def catalog_copy(lived: Shop, catalog_server: EmbeddedPostgres) -> Iterator[str]:
    name = f"{_CATALOG}_{next(_numbers)}"
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {_CATALOG}")
        yield catalog_server.dsn_of(name)
        drop_database(admin, name)


@pytest.fixture
def shop(lived: Shop, catalog_copy: str, tmp_path: Path) -> Shop:
    copy = Shop(tmp_path / "home", catalog_copy)
    shutil.copytree(lived.where["home"], copy.where["home"])
    copy.states = lived.states
    return copy


def test_small_segments_are_put_together_and_read_as_before(shop: Shop) -> None:
    with shop.open() as ps:
        relation = relations.find(ps.catalog, "t")
        before = ps.engine.reader.segments(relation, -1, 1 << 60)
        assert len(before) >= 10
        done = ps.maintain()
        assert (done.merged, done.into, done.released.bytes) == (len(before), 1, 0)
        (after,) = ps.engine.reader.segments(relation, -1, 1 << 60)
        assert (after.low, after.high) == (before[0].low, before[-1].high)
        assert (after.first_time, after.last_time) == (before[0].first_time, before[-1].last_time)
        assert after.rows == sum(one.rows for one in before)
        shop.check(ps)
        # Whoever took the old files from the catalog may still read them, until the grace is over.
        assert files(ps) >= {one.path for one in before}
    with shop.open(changelog_grace=0) as ps:
        ps.maintain()
        assert files(ps) == recorded(ps)
        assert {file.with_suffix(".json").exists() for file in ps.home.changelog().glob("**/*.parquet")} == {True}
        shop.check(ps)


def test_segments_of_few_rows_are_described_when_there_is_time(shop: Shop) -> None:
    def described(ps: penstock.Session) -> set[str]:
        return {ps.home.relative(file.with_suffix(".parquet")) for file in ps.home.changelog().glob("**/*.json")}

    with shop.open() as ps:
        assert described(ps) >= recorded(ps)  # by the session that wrote them, when it was closed
        for file in ps.home.changelog().glob("**/*.json"):
            file.unlink()  # as if it had crashed
        ps.engine.maintain(sweep=False, least=100)
        assert not described(ps)
        ps.engine.maintain(least=100)
        assert described(ps) == recorded(ps)
        relation = relations.find(ps.catalog, "t")
        one = ps.engine.reader.segments(relation, -1, 1 << 60)[-1]
        found = json.loads(ps.home.path(one.path).with_suffix(".json").read_text())
        assert (found["relation"], found["rows"], found["checksum"]) == (relation.folder, one.rows, one.checksum)
        assert found["max_lsn"] == str(Lsn(one.high))
        stray = SegmentWriter(ps.home, relation.folder, 999).write(pa.table({"a": [1]}), 1, 1)
        ps.home.owed.append(Owed(relation.folder, one, 0.0))
        ps.home.path(one.path).with_suffix(".json").unlink()
        assert descriptions.write_owed(ps.catalog, ps.home, age=1e9) == 0
        assert descriptions.write_owed(ps.catalog, ps.home, age=0) == 1
        assert [one.segment for one in ps.home.owed] == [stray]  # its commit may come late
        assert not ps.home.path(stray.path).with_suffix(".json").exists()


def test_replaced_files_stay_while_a_pin_or_a_live_attempt_is_older(shop: Shop) -> None:
    with shop.open(changelog_grace=0) as ps, ps.catalog.lease("stream tables") as lease:
        pin = ps.pin(shop.frontier(3))
        old = recorded(ps)
        ps.maintain()
        assert files(ps) >= old
        attempt = ps.catalog.begin(lease, "refresh")
        ps.catalog.connection.execute(
            "UPDATE attempts SET started_at = now() - interval '1 day' WHERE id = %s", (attempt,)
        )
        ps.release(pin)
        ps.maintain()
        assert files(ps) >= old
        attempts.give_up(ps.catalog, ps.home, attempt)
        ps.maintain()
        assert files(ps) == recorded(ps)


@pytest.mark.parametrize(
    "failpoint",
    ["compact.files_written", "compact.before_commit", "compact.after_commit", "retain.before_commit",
     "retain.after_commit", "collect.files_removed"],
)  # fmt: skip
def test_a_crash_in_any_step_of_the_upkeep(shop: Shop, failpoint: str) -> None:
    with shop.open(**AT_ONCE) as ps:
        shop.publish(ps, 2)
        with arm(failpoint), pytest.raises(FailpointReached):
            ps.engine.maintain(least=2)
        shop.check(ps, since=2)
    with shop.open(**AT_ONCE) as ps:
        ps.engine.maintain(least=2)
        shop.check(ps, since=2)
        assert files(ps) == recorded(ps)
        assert ps.catalog.one("SELECT count(*) AS n FROM dropped_files") == {"n": 0}


def test_a_segment_goes_only_when_nobody_needs_it(shop: Shop) -> None:
    with shop.open(**AT_ONCE) as ps:
        assert ps.engine.maintain(least=100).released.bytes == 0
        shop.check(ps)  # without a base, the changelog is the table
        shop.publish(ps, 7)
        ps.create_stream_table("v", "SELECT id, v FROM t")
        view = stream_tables.get(ps.catalog, "v").relation_id
        with ps.catalog.lease("stream tables") as lease, ps.catalog.commit(lease, None, "refresh") as commit:
            stream_tables.reach_all(commit, {view: shop.frontier(4)})
        pin = ps.pin(shop.frontier(2))
        ps.maintain()
        shop.check(ps, since=2)
        with pytest.raises(NotRetained, match=r"cannot be read at .* any more"):
            ps.engine.position("t", shop.frontier(0))
        ps.release(pin)
        ps.maintain()
        shop.check(ps, since=4)
        needed = {need.who for need in retention.needs(ps.catalog, 0)}
        assert needed == {"v", "the Delta table of shop.public.t", "the Delta table of v"}


def test_what_is_gone_is_never_read_as_nothing(shop: Shop) -> None:
    """Also by a reader that looked at the relation before."""
    with shop.open(**AT_ONCE) as ps:
        relation = relations.find(ps.catalog, "t")
        shop.publish(ps, 7)
        ps.maintain()
        with pytest.raises(NotRetained, match="not kept any more"):
            ps.engine.reader.changes_arrow(
                relation, int(shop.frontier(1)["shop"]), int(shop.frontier(8)["shop"]), ["v"]
            )
        shop.check(ps, since=7)


def test_history_stays_for_as_long_as_it_was_asked_for(shop: Shop) -> None:
    with shop.open(changelog_grace=0) as ps:
        shop.publish(ps, 9)
        assert ps.maintain().released.bytes == 0
        shop.check(ps)


def test_people_are_told_before_anything_is_given_up(
    shop: Shop, catalog_copy: str, caplog: pytest.LogCaptureFixture
) -> None:
    with shop.open() as ps:
        shop.publish(ps, 9)
        pin = ps.pin(shop.frontier(2))
        total = changelog.size(ps.catalog).bytes
    with psycopg.connect(catalog_copy, autocommit=True) as listener, caplog.at_level(logging.WARNING, "penstock.alert"):
        listener.execute(f"LISTEN {CHANNEL}")
        with shop.open(changelog_limit=int(total * 1.1)) as ps:
            assert ps.maintain().released == retention.Released(0)
            shop.check(ps)
            (alert,) = ps.status().alerts
            assert alert.kind == "changelog_size"
            assert f"pin {pin} of" in alert.message
            (told,) = [json.loads(note.payload) for note in listener.notifies(timeout=5, stop_after=1)]
            assert told["message"] == alert.message
            assert alert.message in caplog.text
            limit = changelog.size(ps.catalog).bytes * 2
        with shop.open(changelog_limit=limit) as ps:
            ps.maintain()
            assert ps.status().alerts == ()


def test_at_the_limit_unpublished_changes_stay_and_late_readers_start_anew(shop: Shop) -> None:
    with shop.open(changelog_limit=1, changelog_grace=0) as ps:
        shop.publish(ps, 5)
        ps.create_stream_table("v", "SELECT id, v FROM t")
        view = stream_tables.get(ps.catalog, "v").relation_id
        with ps.catalog.lease("stream tables") as lease, ps.catalog.commit(lease, None, "refresh") as commit:
            stream_tables.reach_all(commit, {view: shop.frontier(1)})
        pin = ps.pin(shop.frontier(2))
        released = ps.maintain().released
        assert (released.pins, released.stream_tables) == ((pin,), ("v",))
        assert {alert.kind for alert in ps.status().alerts} == {"pin_lost", "stream_table_reset", "changelog_size"}
        shop.check(ps, since=5)
        relation = relations.find(ps.catalog, "t")
        assert relation.retained <= int(shop.frontier(5)["shop"])
        with ps.catalog.lease("stream tables") as lease, ps.catalog.commit(lease, None, "refresh") as commit:
            stream_tables.reach_all(commit, {view: shop.frontier(9)})
        ps.maintain()
        assert "stream_table_reset" not in {alert.kind for alert in ps.status().alerts}


def test_files_of_dead_workers_go_and_those_of_live_ones_stay(shop: Shop) -> None:
    with shop.open() as ps:
        rows = pa.table({"a": [1]})

        def left(attempt: int) -> Path:
            return ps.home.path(SegmentWriter(ps.home, "views/x", attempt).write(rows, 1, 1).path)

        lease = ps.catalog.lease("work")
        dead = ps.catalog.begin(lease, "refresh")
        lease.release()
        with ps.catalog.lease("work") as now:
            live = ps.catalog.begin(now, "refresh")
            files = {number: left(number) for number in (dead, live, live + 1000)}
            ps.maintain()
            assert [file.exists() for file in files.values()] == [False, True, True]
            assert not files[dead].with_suffix(".json").exists()
        with ps.catalog.lease("work") as now:
            attempts.collect(ps.catalog, ps.home, now)
            assert not files[live].exists()
            late = left(live)  # a worker that was replaced writes on
            ps.maintain()
            assert not late.exists()
        shop.check(ps)


def test_rows_of_the_catalog_do_not_grow_for_ever(shop: Shop) -> None:
    with shop.open(**AT_ONCE) as ps:
        shop.publish(ps, 9)
        ps.create_stream_table("v", "SELECT id, v FROM t")
        view = stream_tables.get(ps.catalog, "v").relation_id
        with ps.catalog.lease("stream tables") as lease:
            for step in range(150):
                with ps.catalog.commit(lease, None, "refresh") as commit:
                    stream_tables.reach_all(commit, {view: Frontier(shop=10 + step)})
                    line = Refreshed("v", "DIFFERENTIAL", "", 3, 1, 0.1, None)
                    stream_tables.record(commit, view, line)
        with ps.catalog.lease("publish v") as lease, ps.catalog.commit(lease, None, "publish") as commit:
            relations.record_base(commit, view, Base(commit.round - 1, 0, 300))
        newest = stream_tables.get(ps.catalog, "v")
        ps.maintain()
        ps.maintain()

        def count(table: str) -> int:
            (row,) = ps.catalog.all(f"SELECT count(*) AS n FROM {table}")  # type: ignore[arg-type]
            return int(row["n"])

        assert count("frontiers") == 1
        assert stream_tables.get(ps.catalog, "v") == newest
        assert len(ps.history("v", 1000)) == 100
        assert stream_tables.row_count(ps.catalog, view) == 300
        # One for each line of history, the segments and bases that are left, and the step itself.
        assert count("rounds") <= 110
        assert count("attempts") <= 110
        shop.check(ps, since=9)


def test_empty_folders_go_and_one_that_is_gone_is_no_error(shop: Shop) -> None:
    with shop.open() as ps:
        root = ps.home.changelog()
        old, gone = (root / "tables/shop/2001/02/03" / hour for hour in ("04", "05"))
        old.mkdir(parents=True)
        (root / "tables/shop/2001/02/04/05").mkdir(parents=True)
        for folder in (old, gone):
            path = ps.home.relative(folder / "t_a00000001-0001.parquet")
            ps.catalog.connection.execute("INSERT INTO dropped_files (path, bytes) VALUES (%s, 0)", (path,))
        ps.maintain()
        assert [found.name for found in (root / "tables/shop/2001/02").iterdir()] == ["04"]
        assert ps.catalog.all("SELECT * FROM dropped_files WHERE relation_id IS NULL") == []
        shop.check(ps)


def test_a_segment_that_was_changed_is_named(shop: Shop) -> None:
    with shop.open() as ps:
        (path, *_) = sorted(recorded(ps))
        file = ps.home.path(path)
        file.write_bytes(file.read_bytes().replace(b"PAR1", b"PAR2"))
        with pytest.raises(StorageDamaged, match=f"{file.name} is not as it was written"):
            ps.maintain()


def test_segments_that_were_dropped_meanwhile_are_not_brought_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop.open(**AT_ONCE) as ps:
        real = maintenance.changelog.replace

        def late(commit: Any, relation_id: int, old: Any, new: Any) -> bool:
            with psycopg.connect(ps.catalog.dsn, options="-c search_path=penstock") as other:
                other.execute("DELETE FROM segments WHERE path = %s", (old[0].path,))
            return real(commit, relation_id, old, new)

        monkeypatch.setattr(maintenance.changelog, "replace", late)
        assert ps.maintain().merged == 0
        assert files(ps) == recorded(ps)


def test_beside_a_run_the_upkeep_goes_on_by_itself(shop: Shop) -> None:
    with shop.open(maintenance_interval=1) as ps:
        upkeep = Upkeep(ps.engine)
        upkeep.step()
        assert upkeep.running is False, "a run first gets going"
        deadline = time.monotonic() + 30
        while len(recorded(ps)) > 1 and time.monotonic() < deadline:
            upkeep.step()
            time.sleep(0.05)
        upkeep.end()
        upkeep.check()
        shop.check(ps)
        (path,) = recorded(ps)
        ps.home.path(path).unlink()
        with pytest.raises(StorageDamaged):
            shop.check(ps)


def test_what_ends_a_step_ends_the_run_unless_it_may_pass(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop.open(maintenance_interval=1) as ps:
        for error, ends in ((StorageFull("no room"), False), (StorageDamaged("gone"), True)):

            def fails(error: Exception = error, **_: object) -> None:
                raise error

            monkeypatch.setattr(ps.engine, "maintain", fails)
            upkeep = Upkeep(ps.engine)
            time.sleep(1)
            upkeep.step()
            upkeep.end()
            with pytest.raises(StorageDamaged) if ends else nullcontext():
                upkeep.check()


def test_the_commands(shop: Shop) -> None:
    def ran(*arguments: str, code: int = 0) -> str:
        where = ["--home", str(shop.where["home"]), "--catalog", str(shop.where["catalog"])]
        result = CliRunner().invoke(app, [*arguments, *where])
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    with shop.open() as ps:
        shop.publish(ps, 5)
    assert "shop.public.t" in ran("changelog", "show")
    assert json.loads(ran("changelog", "show", "--json"))[0]["kept for"].startswith("history since")
    assert "put together into" in ran("changelog", "maintain")
    assert "0 damaged" in ran("changelog", "check")
    assert "Changelog:" in ran("status")
    with shop.open() as ps:
        for path in recorded(ps):
            ps.home.path(path).unlink()
    assert "is gone" in ran("changelog", "check", code=1)
