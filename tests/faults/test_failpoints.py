"""A crash at every durable step of settling, refreshing and publishing: a restart makes everything equal again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from servers import NO_TRUNCATE

import penstock
from penstock.capture import ingest
from penstock.errors import Busy, LeaseLost
from penstock.failpoint import FailpointReached, arm

STEPS = [
    "ingest.before_commit",
    "ingest.before_acknowledge",
    "settle.files_written",
    "settle.after_commit",
    "refresh.files_written",
    "refresh.before_commit",
    "refresh.after_commit",
    "publish.delta_committed",
    "publish.before_commit",
    "publish.after_commit",
]
VIEWS = {
    "joined": "SELECT a.id, a.v, b.w FROM a JOIN b ON b.id = a.b_id",
    "summed": "SELECT w, count(*) AS n, sum(v) AS v FROM joined GROUP BY w",
}
SCHEMA = """
    CREATE TABLE b (id int PRIMARY KEY, w int);
    CREATE TABLE a (id int PRIMARY KEY, b_id int REFERENCES b, v bigint);
    INSERT INTO b SELECT i, i % 3 FROM generate_series(1, 10) i;
    INSERT INTO a SELECT i, 1 + i % 10, i FROM generate_series(1, 100) i;
"""


def change(connection: psycopg.Connection[tuple[object, ...]], step: int) -> None:
    with connection.transaction():
        connection.execute("INSERT INTO a VALUES (%s, 1, 7)", (1000 + step,))
        connection.execute("UPDATE a SET v = v + 1 WHERE id %% 9 = %s", (step % 9,))
        connection.execute("DELETE FROM a WHERE id = %s", (step + 1,))
        connection.execute("UPDATE b SET w = (w + 1) %% 4 WHERE id = %s", (1 + step % 10,))


def test_a_crash_at_any_step_changes_nothing_but_the_time_it_takes(
    tmp_path: Path, catalog_db: str, source_db: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session() -> penstock.Session:
        return penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark)

    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute(SCHEMA)
        with session() as ps:
            ps.add_source("shop", source_db, tables=["public.*"], **NO_TRUNCATE)
            for name, query in VIEWS.items():
                ps.create_stream_table(name, query, mode="DIFFERENTIAL")
            everything(ps)
        # Each session starts from what the crash before it left, and crashes one step further. Views and changelog only
        # ever add to what they have, so that a row lost or doubled on the way is still so at the end.
        for step, failpoint in enumerate(STEPS):
            change(connection, step)
            if failpoint.startswith("settle"):
                monkeypatch.setattr(ingest, "AT_ONCE_ROWS", -1)
            with session() as ps, arm(failpoint), pytest.raises(FailpointReached):
                everything(ps, refresh=not failpoint.startswith("publish"), publish=failpoint.startswith("publish"))
        monkeypatch.undo()
        change(connection, len(STEPS))
        with session() as ps:
            everything(ps)
            outcome = ps.verify("shop")
            assert outcome.ok, str(outcome)
            for name in ("a", "summed"):
                path = ps.publish(name).path
                assert rows_in(ps.spark.read.format("delta").load(path)) == rows_in(ps.table(name))
                stamps = [entry["userMetadata"] for entry in DeltaTable(path).history()]
                assert len(set(stamps)) == len(stamps), "a position was published twice"


def rows_in(frame: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in frame.toArrow().to_pylist())


def everything(ps: penstock.Session, *, refresh: bool = True, publish: bool = True) -> None:
    ps.catch_up()
    if refresh:
        ps.refresh("summed")
    if publish:
        ps.publish("a")
        ps.publish("summed")


RUN = """
import sys, penstock
home, catalog = sys.argv[1:]
with penstock.connect(home=home, catalog=catalog, config={"publish_interval": 1}) as ps:
    ps.run()
"""


def test_a_killed_run_goes_on_where_it_was(
    tmp_path: Path, catalog_db: str, source_db: str, spark: SparkSession
) -> None:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute(SCHEMA)
        with penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark) as ps:
            ps.add_source("shop", source_db, tables=["public.*"], **NO_TRUNCATE)
            for name, query in VIEWS.items():
                ps.create_stream_table(name, query, schedule="on-commit", mode="DIFFERENTIAL")
            ps.refresh("summed")
        child = subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path / "home"), catalog_db],
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        with penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark) as ps:
            step, refreshes = 0, len(ps.history("summed"))
            while len(ps.history("summed")) < refreshes + 1:
                assert child.poll() is None, "the run ended by itself"
                change(connection, step)
                step += 1
                time.sleep(0.2)
            with pytest.raises(Busy, match="source shop is in use on this home by process"):
                ps.catch_up()
            child.send_signal(signal.SIGKILL)
            child.wait(30)
            ps.catalog.lease("scheduler").release()  # it went with the process
            change(connection, step)
            outcome = ps.verify("shop")
            assert outcome.ok, str(outcome)
            for name in VIEWS:
                computed = [str(one.frontier) for one in ps.history(name) if one.action != "NO_DATA"]
                assert len(set(computed)) == len(computed), "one frontier was computed twice"


def test_a_worker_that_wakes_up_late_cannot_commit(tmp_path: Path, catalog_db: str) -> None:
    with (
        penstock.connect(home=tmp_path / "home", catalog=catalog_db) as old,
        penstock.connect(home=tmp_path / "home", catalog=catalog_db) as new,
    ):
        lease = old.catalog.lease("source shop")
        attempt = old.catalog.begin(lease, "ingest")
        with pytest.raises(Busy):
            new.catalog.lease("source shop")
        lease.release()  # as the server does when the old worker's connection breaks
        new.catalog.lease("source shop")
        with pytest.raises(LeaseLost), old.catalog.commit(lease, attempt, "ingest"):
            pytest.fail("the transaction was entered")
        assert old.catalog.one("SELECT count(*) AS n FROM rounds") == {"n": 0}
