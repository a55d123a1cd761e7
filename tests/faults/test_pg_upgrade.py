"""A server that went through pg_upgrade has another identity: it is refused, and its tables can be copied from it.

pg_upgrade begins a new log behind the positions of the old one. From 17 on it takes the slots over, each at the start
of that new log; before, they are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from faults.consumer import SETUP, write
from servers import NEWEST, shut_down, start_server, upgrade

import penstock
from penstock.catalog import relations, stream_tables
from penstock.embedded import EmbeddedPostgres
from penstock.errors import SlotLost

pytestmark = pytest.mark.since(NEWEST, "the servers that are upgraded are always the same")
APPLIED = "sources: {{shop: {{dsn: '{}', schemas: {{public: ['*']}}}}}}"


@contextmanager
def before(folder: Path, version: int) -> Iterator[tuple[EmbeddedPostgres, psycopg.Connection[Any]]]:
    server = start_server(folder, version=version)
    try:
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute("CREATE DATABASE shop")
        with psycopg.connect(server.dsn_of("shop"), autocommit=True) as db:
            db.execute(SETUP)
            yield server, db
    finally:
        server.stop()


@contextmanager
def after(old: EmbeddedPostgres, folder: Path) -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    shut_down(old)
    new = upgrade(old, folder)
    try:
        with psycopg.connect(new.dsn_of("shop"), autocommit=True) as db:
            yield new.dsn_of("shop"), db
    finally:
        new.stop()


@pytest.mark.parametrize(("version", "slots"), [(16, 0), (18, 1)])
def test_an_upgraded_server_is_another_one(version, slots, tmp_path, catalog_db):
    place = tmp_path / "home", catalog_db
    with before(tmp_path / "old", version) as (old, db):
        with penstock.connect(*place) as ps:
            ps.add_source("shop", old.dsn_of("shop"))
            ps.create_stream_table("view", "SELECT tx, k FROM events")
            write(db, 1)
            position = ps.catch_up()["shop"]
        with after(old, tmp_path / "new") as (dsn, db), penstock.connect(*place) as ps:
            assert db.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (slots,)
            write(db, 2)
            (tmp_path / "sources.yaml").write_text(APPLIED.format(dsn))
            ps.apply_sources(tmp_path / "sources.yaml")
            for _ in range(2):
                with pytest.raises(SlotLost, match="the server is another one") as lost:
                    ps.catch_up()
            assert "pg_upgrade" in lost.value.hint
            assert "penstock slots recover" in lost.value.hint
            assert ps.frontier()["shop"] == position

            found = ps.recovery("shop")
            assert (found.way, found.position, found.slot is None) == ("resync", position, not slots)
            assert "the server is another one" in str(found)
            ps.recover("shop")
            write(db, 3)
            assert ps.catch_up()["shop"] > position
            for table in ("accounts", "events"):
                assert _rows(ps, table) == Counter(db.execute(f"SELECT * FROM {table}").fetchall())
            assert stream_tables.get(ps.catalog, "view").inputs == (relations.find(ps.catalog, "events").id,)


def _rows(ps: penstock.Session, table: str) -> Counter[Any]:
    relation, position, _ = ps.engine.position(table)
    return Counter(tuple(row.values()) for row in ps.engine.reader.rows_arrow(relation, position).to_pylist())
