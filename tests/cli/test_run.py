"""`penstock run` until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

import penstock

RUN = "import sys; sys.argv = ['penstock', 'run']; from penstock.cli.main import main; main()"


def test_ctrl_c_ends_a_run_at_once_and_leaves_nothing_locked(tmp_path: Path, catalog_db: str, source_db: str) -> None:
    home = tmp_path / "home"
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY)")
        with penstock.connect(home, catalog_db) as ps:
            ps.add_source("shop", source_db, tables=["t"])
            copied = ps.frontier()["shop"]
        environment = {**os.environ, "PENSTOCK_HOME": str(home), "PENSTOCK_CATALOG": catalog_db}
        with subprocess.Popen(
            [sys.executable, "-c", RUN], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as run:
            with penstock.connect(home, catalog_db) as ps:
                db.execute("INSERT INTO t VALUES (1)")
                deadline = time.monotonic() + 60
                while ps.frontier()["shop"] == copied:  # captured by the run, while this one looks on
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            run.send_signal(signal.SIGINT)
            said, _ = run.communicate(timeout=60)
        assert run.returncode == 130
        assert said.startswith("Running; Ctrl-C stops.")
        assert "Traceback" not in said
        db.execute("INSERT INTO t VALUES (2)")
        with penstock.connect(home, catalog_db) as ps:
            ps.catch_up()
            relation, position, _ = ps.engine.position("t")
            assert ps.engine.reader.rows_arrow(relation, position)["id"].to_pylist() == [1, 2]
