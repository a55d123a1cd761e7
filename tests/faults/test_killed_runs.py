"""`run()` under the demo's load, killed every 20 s at a random moment: no wrong or lost row, no stuck lock."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

import penstock
from penstock.demo import shop
from penstock.demo.run import VIEWS

RUN = """
import sys, penstock
home, catalog = sys.argv[1:]
with penstock.connect(home=home, catalog=catalog) as ps:
    ps.run()
"""
EVERY = 20.0


def started(home: Path, catalog: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(home), catalog], env={**os.environ, "PYTHONWARNINGS": "ignore"}
    )


@pytest.mark.soak
@pytest.mark.matrix
@pytest.mark.timeout(0)
def test_ten_minutes_of_kills(tmp_path: Path, catalog_db: str, source_db: str) -> None:
    length = float(os.environ.get("PENSTOCK_KILL_SECONDS", "600"))
    rng = random.Random(os.environ.get("SEED"))
    home = tmp_path / "home"
    with psycopg.connect(source_db, autocommit=True) as connection:
        shop.create(connection)
    with penstock.connect(home=home, catalog=catalog_db) as ps:
        ps.add_source("shop", source_db, tables=["public.*"])
        for name, query in VIEWS.items():
            ps.create_stream_table(name, query, schedule="on-commit")
        ps.refresh_all()
    workload = shop.Workload(source_db, rate=40)
    workload.start()
    kills, end = 0, time.monotonic() + length
    try:
        while time.monotonic() < end:
            child = started(home, catalog_db)
            time.sleep(rng.uniform(0.5, 1.5) * EVERY)
            assert child.poll() is None, "the run ended by itself"
            child.send_signal(signal.SIGKILL)
            child.wait(30)
            kills += 1
    finally:
        workload.stop()
    with penstock.connect(home=home, catalog=catalog_db) as ps:
        ps.catalog.lease("scheduler").release()  # nobody holds it
        begun = time.monotonic()
        ps.catch_up()
        done = ps.refresh_all()
        caught_up = time.monotonic() - begun
        assert {one.frontier for one in done.values()} == {ps.frontier()}
        outcome = ps.verify("shop")
        assert outcome.ok, str(outcome)
        for name in VIEWS:
            lines = ps.history(name, 100_000)
            assert not [line for line in lines if line.error], lines
            computed = [str(one.frontier) for one in lines if one.action not in ("NO_DATA", "SKIP")]
            assert len(set(computed)) == len(computed), "one frontier was computed twice"
            assert {one.status for one in ps.status().stream_tables} == {"ACTIVE"}
    print(f"{kills} kills in {length:.0f} s; caught up in {caught_up:.1f} s; {len(lines)} refreshes of {name}")
