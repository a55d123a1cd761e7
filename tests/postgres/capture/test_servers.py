"""Servers other than the one the rest is tested on: an older version, one that is full, one that logs too little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from servers import start_server

from penstock.capture import PostgresSource, SourceConfig, check, remove
from penstock.embedded import CATALOG_SETTINGS, SOURCE_SETTINGS, EmbeddedPostgres
from penstock.errors import NoSlotLeft, NotYet, SourceError


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """PostgreSQL 16 with room for one slot."""
    settings = {**SOURCE_SETTINGS, "fsync": "off", "max_replication_slots": "1"}
    server = EmbeddedPostgres(tmp_path_factory.mktemp("old") / "pg", settings, version=16)
    yield server
    server.stop()


def test_postgres_16_copies_streams_restarts_and_fills_up(old_server, drain):
    dsn = old_server.dsn
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, x numeric(9,2), at timestamptz, note text)")
        db.execute("INSERT INTO t SELECT g, g / 3.0, now(), 'n' || g FROM generate_series(1, 500) g")
        source = PostgresSource(SourceConfig.from_dsn(dsn, ["t"], slot_name="sixteen"))
        source.open()
        db.execute("UPDATE t SET x = x + 1 WHERE id < 50; DELETE FROM t WHERE id > 490")
        received = drain(source)
        state = source.checkpoint()
        source.acknowledge(state)
        source.close()
        db.execute("UPDATE t SET id = id + 1000 WHERE id < 10")
        source.restore(state)
        source.open()
        drain(source, received)
        source.close()
        with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            table = {(row["id"],): row for row in cursor.execute("SELECT * FROM t")}
        assert received.state("public.t", "id") == table

        with pytest.raises(NoSlotLeft, match="all 1 replication slots"):
            check(dsn, ["t"], slot="another")
        db.execute("CREATE TABLE g (id int PRIMARY KEY, d int GENERATED ALWAYS AS (id * 2) STORED)")
        with pytest.raises(NotYet, match="generated"):
            check(dsn, ["g"])
        remove(dsn, "sixteen", "penstock_sixteen")
        assert db.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)


def test_too_little_wal_is_said_before_anything_else(tmp_path_factory):
    server = EmbeddedPostgres(tmp_path_factory.mktemp("replica") / "pg", CATALOG_SETTINGS, version=16)
    try:
        with pytest.raises(SourceError, match="wal_level=replica") as refused:
            check(server.dsn, ["t"])
        assert "ALTER SYSTEM SET wal_level" in refused.value.hint
    finally:
        server.stop()


@pytest.mark.matrix
def test_postgres_10_is_refused_until_the_user_says_that_nobody_truncates(tmp_path_factory, drain):
    server = start_server(tmp_path_factory.mktemp("ten") / "pg", version=10)
    try:
        with psycopg.connect(server.dsn, autocommit=True) as db:
            db.execute("CREATE TABLE t (id int PRIMARY KEY, x float8); INSERT INTO t VALUES (1, 0.1 + 0.2::float8)")
            with pytest.raises(SourceError, match="does not replicate TRUNCATE") as refused:
                check(server.dsn, ["t"])
            assert "assume_no_truncate" in refused.value.hint
            plain = SourceConfig.from_dsn(server.dsn, ["t"], slot_name="ten")
            with pytest.raises(SourceError, match="does not replicate TRUNCATE"):
                PostgresSource(plain).open()
            assert db.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
            with PostgresSource(replace(plain, assume_no_truncate=True)) as source:
                source.open()
                db.execute("INSERT INTO t VALUES (2, 0.1 + 0.2::float8)")
                assert [row["x"] for row in drain(source).rows("public.t")] == [0.1 + 0.2] * 2
    finally:
        server.stop()
