"""A caller that is busy for longer than the server's patience keeps its connection, and acknowledges nothing by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers import NO_TRUNCATE, TEST_SETTINGS, start_server

from penstock.capture import PostgresSource, SourceConfig, remove
from penstock.embedded import EmbeddedPostgres

PATIENCE = 1.0  # seconds


@pytest.fixture(scope="module")
def server(tmp_path_factory: Any) -> Iterator[EmbeddedPostgres]:
    server = start_server(tmp_path_factory.mktemp("impatient") / "pg", {**TEST_SETTINGS, "wal_sender_timeout": "0"})
    yield server
    server.stop()


def be_patient_for(db: Any, seconds: float) -> None:
    wanted = f"{seconds * 1000:.0f}"
    db.execute(f"ALTER SYSTEM SET wal_sender_timeout = {wanted}")
    db.execute("SELECT pg_reload_conf()")
    while db.execute("SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'").fetchone()[0] != wanted:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("when", "writing"), [("before it connects", False), ("before it connects", True), ("while it is connected", False)]
)
def test_a_busy_caller_keeps_its_connection(
    server: EmbeddedPostgres, drain: Any, confirmed: Any, when: str, writing: bool
) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as db:
        db.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (0)")
        be_patient_for(db, 0)
        if when == "before it connects":
            be_patient_for(db, PATIENCE)
        config = SourceConfig.from_dsn(server.dsn, ["t"], slot_name="busy", **NO_TRUNCATE)
        with PostgresSource(config) as source:
            source.open()
            received = drain(source)
            db.execute("INSERT INTO t VALUES (-2)")
            drain(source, received)  # the stream has begun
            state = source.checkpoint()
            source.acknowledge(state)
            if when != "before it connects":
                be_patient_for(db, PATIENCE)
            until, number = time.monotonic() + 4 * PATIENCE, 0
            while time.monotonic() < until:
                if writing:
                    number += 1
                    db.execute("INSERT INTO t VALUES (%s)", [number])
                time.sleep(0.01)
            assert confirmed(db, "busy") <= state.lsn
            db.execute("INSERT INTO t VALUES (-1)")
            drain(source, received)
            assert source.metrics().reconnects == 0
            found = sorted(row["id"] for row in received.rows("public.t"))
            assert [(one,) for one in found] == db.execute("SELECT id FROM t ORDER BY id").fetchall()
    remove(server.dsn, "busy", config.publication_name)
