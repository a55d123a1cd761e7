"""Random lives of stream tables: at every step each equals its query at its frontier, and history explains each move.

The source has a view for each stream table, so PostgreSQL itself says what a stream table at the newest frontier must
show; one that is elsewhere must show what it showed when it got there.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg import sql
from pyspark.sql import SparkSession

import penstock
from penstock.catalog import stream_tables
from penstock.errors import ConfigError
from penstock.failpoint import FailpointReached, arm
from penstock.refresh.scheduler import Scheduler

SCHEMA = """
    CREATE TABLE a (id int PRIMARY KEY, g int, x int); CREATE TABLE b (id int PRIMARY KEY, g int);
    INSERT INTO a SELECT i, i % 3, i FROM generate_series(1, 9) i;
    INSERT INTO b SELECT i, i % 2 FROM generate_series(1, 4) i;
    CREATE SCHEMA model;
"""
# The same columns, so that altering is in place where `wide` is not involved. {0} and {1} are tables or stream tables.
QUERIES = {
    "filter": "SELECT g, x FROM (SELECT g, x FROM {0} WHERE x % 2 = 0) f",
    "sums": "SELECT g, count(x)::int AS x FROM {0} GROUP BY g",
    "join": "SELECT l.g, r.x FROM {0} l JOIN {1} r ON r.g = l.g",
    "wide": "SELECT g, x, x + 1 AS y FROM {0}",
}
NAMES = ("v1", "v2", "v3", "v4")
STEPS = ["refresh.files_written", "refresh.before_commit", "refresh.after_commit"]
names = st.sampled_from(NAMES)
queries = st.sampled_from(sorted(QUERIES))
inputs = st.lists(st.sampled_from(("a", *NAMES)), min_size=2, max_size=2)


class Streams(RuleBasedStateMachine):
    dsn: str
    catalog: str
    home: Path
    spark: SparkSession

    @initialize()
    def open(self) -> None:
        self.db = psycopg.connect(self.dsn, autocommit=True)
        self.db.execute("DROP SCHEMA IF EXISTS model CASCADE; DROP TABLE IF EXISTS a, b")
        self.db.execute(SCHEMA)
        self.db.execute("SET search_path = public, model")
        self.folder = tempfile.TemporaryDirectory(dir=self.home)
        self.database = f"life_{id(self)}"
        with psycopg.connect(self.catalog, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(self.database)))
        self.connect()
        self.ps.add_source("shop", self.dsn, tables=["public.*"])
        self.shown: dict[str, tuple[Any, Counter[Any]]] = {}
        self.reads: dict[str, set[str]] = {}
        self.number = 100

    def connect(self) -> None:
        there = psycopg.conninfo.make_conninfo(self.catalog, dbname=self.database)
        self.ps = penstock.connect(self.folder.name, there, self.spark)

    def teardown(self) -> None:
        if hasattr(self, "ps"):
            self.ps.remove_source("shop") if not self.reads else self._drop_all()
            self.ps.close()
            self.db.close()
            self.folder.cleanup()

    def _drop_all(self) -> None:
        for name in list(self.reads):
            if stream_tables.lookup(self.ps.catalog, name) is not None:
                self.ps.drop_stream_table(name, cascade=True)
        self.ps.remove_source("shop")

    # What people do ---------------------------------------------------------------------------------------------------

    @rule(kind=st.integers(0, 4), g=st.integers(0, 3))
    def change_rows(self, kind: int, g: int) -> None:
        self.number += 1
        with self.db.transaction():
            match kind:
                case 0:
                    self.db.execute("INSERT INTO a VALUES (%s, %s, %s)", (self.number, g, self.number))
                case 1:
                    self.db.execute("UPDATE a SET x = x + 1 WHERE g = %s", (g,))
                case 2:
                    self.db.execute("DELETE FROM a WHERE id = (SELECT min(id) FROM a WHERE g = %s)", (g,))
                case 3:
                    self.db.execute("UPDATE a SET g = %s WHERE id %% 4 = 1", (g,))
                case 4:
                    self.db.execute("INSERT INTO b VALUES (%s, %s)", (self.number, g))
        self.ps.catch_up()

    @rule()
    def add_a_column_that_nobody_uses(self) -> None:
        self.number += 1
        self.db.execute(f"ALTER TABLE a ADD c{self.number} int".encode())
        self.db.execute("INSERT INTO a (id, g, x) VALUES (%s, 1, 2)", (self.number,))
        self.ps.catch_up()

    @rule(name=names, query=queries, read=inputs, mode=st.sampled_from(("AUTO", "DIFFERENTIAL", "FULL")))
    def create(self, name: str, query: str, read: list[str], mode: str) -> None:
        if name in self.reads:
            return
        read = self._inputs(query, read)
        text = QUERIES[query].format(*read)
        self.ps.create_stream_table(name, text, mode=mode, schedule="on-commit")
        self.db.execute(f"CREATE VIEW model.{name} AS {text}".encode())
        self.reads[name] = set(read)

    @precondition(lambda self: self.reads)
    @rule(name=names, query=queries, read=inputs)
    def alter(self, name: str, query: str, read: list[str]) -> None:
        if name not in self.reads:
            return
        read = self._inputs(query, read)
        text = QUERIES[query].format(*read)
        circle = name in self._below(set(read))
        try:
            done = self.ps.alter_stream_table(name, query=text)
        except ConfigError as error:
            refused = error.message
            said = "in a circle" if circle else "changes its columns"
            if said not in refused:
                raise
            return
        assert not circle
        note(f"{done.change}: {done.reason}")
        self.reads[name] = set(read)
        if done.change == "rebuilt":
            self.shown.pop(name, None)
            self.db.execute(f"DROP VIEW model.{name}".encode())
        self.db.execute(f"CREATE OR REPLACE VIEW model.{name} AS {text}".encode())

    def _inputs(self, query: str, read: list[str]) -> list[str]:
        """What a query reads of what there is."""
        return ["a" if one not in self.reads else one for one in read[: 2 if query == "join" else 1]]

    def _below(self, read: set[str]) -> set[str]:
        found = set(read)
        for one in read & self.reads.keys():
            found |= self._below(self.reads[one])
        return found

    @rule(name=names, cascade=st.booleans())
    def drop(self, name: str, cascade: bool) -> None:
        if name not in self.reads:
            return
        readers = {one for one in self.reads if one != name and name in self._below(self.reads[one])}
        if readers and not cascade:
            with pytest.raises(ConfigError, match="is read by"):
                self.ps.drop_stream_table(name)
            return
        gone = self.ps.drop_stream_table(name, cascade=cascade)
        assert set(gone) == readers | {name}
        for one in gone:
            del self.reads[one]
            self.shown.pop(one, None)
        self.db.execute(f"DROP VIEW model.{name} CASCADE".encode())

    @rule(name=names, status=st.sampled_from(("ACTIVE", "SUSPENDED")))
    def set_status(self, name: str, status: str) -> None:
        if name in self.reads:
            self.ps.alter_stream_table(name, status=status)

    @rule(name=names)
    def refresh(self, name: str) -> None:
        if name in self.reads:
            done = self.ps.refresh(name)
            held = {one.name for one in stream_tables.every(self.ps.catalog) if one.suspended_by == "hand"}
            assert (done.action == "SKIP") == bool(held & self._below({name}))

    # What happens by itself -------------------------------------------------------------------------------------------

    @rule()
    def tick(self) -> None:
        Scheduler(self.ps.engine, threading.Event()).tick()

    @rule(step=st.sampled_from(STEPS))
    def crash(self, step: str) -> None:
        """In the middle of a tick, then another process goes on."""
        with arm(step):
            try:
                Scheduler(self.ps.engine, threading.Event()).tick()
            except FailpointReached:
                note(f"crashed at {step}")
        self.ps.close()
        self.connect()
        self.ps.catch_up()

    @invariant()
    def each_shows_what_it_should(self) -> None:
        if not hasattr(self, "reads"):
            return
        newest = self.ps.frontier()
        tables = {table.name: table for table in stream_tables.every(self.ps.catalog)}
        assert tables.keys() == self.reads.keys()
        for name, table in tables.items():
            lines = self.ps.history(name, 1)
            if table.frontier is None:
                assert table.status in ("INITIALIZING", "SUSPENDED")
                continue
            key = (table.relation_id, table.round)
            if name in self.shown and self.shown[name][0] == key:
                continue  # it has not moved, and what is stored of a round never changes
            rows = Counter(tuple(row.values()) for row in self.ps.table(name).toArrow().to_pylist())
            assert lines[0].round == table.round
            assert lines[0].frontier == table.frontier
            assert lines[0].error is None
            if table.frontier == newest and table.reinit_reason is None:
                expected = Counter(self.db.execute(f"SELECT * FROM model.{name}".encode()).fetchall())
                assert rows == expected, f"{name} after {lines[0].action} ({lines[0].reason})"
            before = self.shown[name][1] if name in self.shown else Counter()
            moved = sum((rows - before).values()), sum((before - rows).values())
            if lines[0].inserted or lines[0].deleted:
                assert moved == (lines[0].inserted, lines[0].deleted)
            self.shown[name] = (key, rows)


@pytest.fixture
def machine(source_db: str, catalog_db: str, tmp_path: Path, spark: SparkSession) -> type[Streams]:
    return type("Machine", (Streams,), {"dsn": source_db, "catalog": catalog_db, "home": tmp_path, "spark": spark})


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.usefixtures("interpreted")
def test_random_lives_of_stream_tables(machine: type[Streams]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=4, stateful_step_count=14, deadline=None, suppress_health_check=QUIET)
    )


@pytest.mark.soak
@pytest.mark.matrix
@pytest.mark.timeout(0)
@pytest.mark.usefixtures("interpreted")
def test_many_random_lives_of_stream_tables(machine: type[Streams]) -> None:
    lives = int(os.environ.get("PENSTOCK_LIVES", "20"))
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=lives, stateful_step_count=40, deadline=None, suppress_health_check=QUIET),
    )
