"""A home that was put back to an earlier moment is recognised, and goes on without a row lost or doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from servers import NO_TRUNCATE

import penstock
from penstock.catalog import relations, stream_tables
from penstock.cut import Frontier
from penstock.errors import ConfigError, PublishError, SlotLost
from penstock.failpoint import FailpointReached, arm
from penstock.lake.delta_log import Stamp
from penstock.lake.other_history import check_known
from penstock.lsn import Lsn
from penstock.refresh.backup import backup, read, restore
from penstock.relation.home import Home


class Place:
    """A home with a source, a backup of it, and what happened since; then the backup put back."""

    def __init__(self, tmp_path: Path, catalog_db: str, spare_db: str, source_db: str, *, keep_log: bool) -> None:
        self.folder, self._spare = tmp_path / "backup", spare_db
        self._old, self._new = (tmp_path / "home", catalog_db), (tmp_path / "restored", spare_db)
        self.db = psycopg.connect(source_db, autocommit=True)
        self.db.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE u (id int PRIMARY KEY)")
        self.db.execute("INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) i")
        with penstock.connect(*self._old) as ps:
            ps.add_source("shop", source_db, tables=["public.*"], **NO_TRUNCATE)
            ps.create_stream_table("view", "SELECT id, v FROM t")
            self.change(1)
            frontier = ps.catch_up()
            with ps.catalog.lease("stream tables") as lease, ps.catalog.commit(lease, None, "refresh") as commit:
                view = stream_tables.get(ps.catalog, "view").relation_id
                stream_tables.reach_all(commit, {view: frontier})
            self.backup = ps.backup(self.folder, keep_log=keep_log)
            self.change(2)
            ps.catch_up()
        self.change(3)

    def change(self, step: int) -> None:
        self.db.execute("UPDATE t SET v = v + %s WHERE id %% 5 = %s", (step, step))
        self.db.execute("DELETE FROM t WHERE id = %s", (10 * step,))
        self.db.execute("INSERT INTO u VALUES (%s)", (step,))

    def restored(self) -> penstock.Session:
        return penstock.connect(*self._new)

    def put_back(self) -> None:
        restore(self.folder, Home.at(self._new[0]), self._spare)

    def check(self, ps: penstock.Session) -> None:
        ps.catch_up()
        for table in ("t", "u"):
            relation, position, _ = ps.engine.position(table)
            rows = Counter(tuple(row.values()) for row in ps.engine.reader.rows_arrow(relation, position).to_pylist())
            assert rows == Counter(self.db.execute(f"SELECT * FROM {table}").fetchall())


@pytest.fixture
def spare_db(catalog_db: str) -> Iterator[str]:
    """An empty database beside the catalog's."""
    with psycopg.connect(catalog_db, autocommit=True) as admin:
        name = f"{admin.info.dbname}_spare"
        admin.execute(f"CREATE DATABASE {name}")
        yield make_conninfo(catalog_db, dbname=name)
        admin.execute(
            f"DROP DATABASE {name} WITH (FORCE)" if admin.info.server_version >= 130000 else f"DROP DATABASE {name}"
        )


@pytest.fixture
def where(tmp_path: Path, catalog_db: str, spare_db: str, source_db: str) -> dict[str, Any]:
    return {"tmp_path": tmp_path, "catalog_db": catalog_db, "spare_db": spare_db, "source_db": source_db}


@pytest.mark.since(12, "copies of slots")
def test_what_a_backup_kept_is_replayed(where: dict[str, Any]) -> None:
    place = Place(**where, keep_log=True)
    place.put_back()
    with place.restored() as ps:
        assert ps.status().sources[0].captured == place.backup.captured["shop"]
        assert ps.catalog.all("SELECT * FROM pins") == []
        with pytest.raises(SlotLost, match="past the checkpoint") as lost:
            ps.catch_up()
        assert "penstock slots recover" in str(lost.value)
        found = ps.recovery("shop")
        assert (found.way, str(found.position)) == ("replay", place.backup.captured["shop"])
        assert "can be replayed" in str(found)
        with arm("recover.slot_dropped"), pytest.raises(FailpointReached):
            ps.recover("shop")
        assert ps.recovery("shop").slot is None
        ps.recover("shop")
        relation = relations.find(ps.catalog, "t")
        assert relation.since < int(Lsn.parse(place.backup.captured["shop"])), "nothing was copied again"
        place.check(ps)
        assert ps.recovery("shop").way == "none"
        place.change(4)
        place.check(ps)


def test_without_it_the_tables_are_copied_again_and_stream_tables_stay(where: dict[str, Any]) -> None:
    place = Place(**where, keep_log=False)
    place.put_back()
    with place.restored() as ps:
        before = stream_tables.get(ps.catalog, "view")
        found = ps.recovery("shop")
        assert found.way == "resync"
        assert "must be copied again" in str(found)
        ps.recover("shop")
        place.check(ps)
        view = stream_tables.get(ps.catalog, "view")
        assert (view.frontier, view.query) == (before.frontier, before.query)
        (copied,) = relations.by_id(ps.catalog, view.inputs)
        assert view.frontier is not None
        assert copied.since > view.frontier["shop"], "its next refresh computes it anew"
        place.change(4)
        place.check(ps)


def test_a_slot_that_is_gone_is_made_anew(where: dict[str, Any]) -> None:
    place = Place(**where, keep_log=False)
    place.put_back()
    with place.restored() as ps:
        place.db.execute("SELECT pg_drop_replication_slot(%s)", (ps.status().sources[0].slot,))
        assert ps.recovery("shop").slot is None
        with arm("recover.slot_dropped"), pytest.raises(FailpointReached):
            ps.recover("shop")
        ps.recover("shop")
        place.check(ps)


def test_a_backup_that_was_not_finished_is_none(where: dict[str, Any], tmp_path: Path) -> None:
    place = Place(**where, keep_log=False)
    with penstock.connect(tmp_path / "home", where["catalog_db"]) as ps:
        with arm("backup.catalog_dumped"), pytest.raises(FailpointReached):
            backup(ps.home, ps.catalog, tmp_path / "half")
        assert ps.catalog.all("SELECT * FROM pins") == []
        with pytest.raises(ConfigError, match="is not empty"):
            ps.backup(place.folder)
    with pytest.raises(ConfigError, match="not a whole backup"):
        read(tmp_path / "half")
    with pytest.raises(ConfigError, match="is not empty"):
        restore(place.folder, Home.at(tmp_path / "home"), where["spare_db"])


def test_a_delta_table_of_a_history_that_the_catalog_lost_is_not_taken_over(where: dict[str, Any]) -> None:
    place = Place(**where, keep_log=False)
    with penstock.connect(where["tmp_path"] / "home", where["catalog_db"]) as ps:
        table, view = relations.find(ps.catalog, "t"), relations.find(ps.catalog, "view")
        known = stream_tables.get(ps.catalog, "view")
        assert known.frontier is not None
        assert known.round is not None
        now = int(ps.frontier()["shop"])
        check_known(ps.catalog, table, Stamp("t", "", now, str(ps.frontier())))
        check_known(ps.catalog, view, Stamp("view", "", known.round, str(known.frontier)))
        for relation, position in ((table, now + 1), (view, known.round), (view, known.round + 1)):
            with pytest.raises(PublishError, match="the catalog was put back to an earlier moment"):
                check_known(ps.catalog, relation, Stamp("", "", position, str(Frontier(shop=now + 1))))
    assert place.backup.files
