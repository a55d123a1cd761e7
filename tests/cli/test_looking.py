"""Plan, apply, dag and status on the command line, over a catalog with a source. No Spark is needed."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

import penstock
from penstock.cli.main import main
from penstock.cli.status import remarks
from penstock.refresh.status import StreamTableStatus

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, catalog_db: str, source_db: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t VALUES (1, 1), (2, 2)")
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as ps:
        ps.add_source("shop", source_db, tables=["t"])
    monkeypatch.setenv("PENSTOCK_CATALOG", catalog_db)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["penstock", *arguments])
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main()
        return out.getvalue()

    return command


def test_a_project_is_planned_applied_and_seen(run: Run, tmp_path: Path) -> None:
    views = tmp_path / "views"
    views.mkdir()
    (views / "top.sql").write_text("SELECT max(n) AS n FROM sums")
    (views / "sums.sql").write_text("-- schedule: 5m\nSELECT v, count(*) AS n FROM t GROUP BY v")
    planned = run("plan", str(views))
    assert planned.splitlines() == [
        "+ create sums (sums.sql): new; reads 2 rows of 1 input",
        "+ create top (top.sql): new; reads 0 rows of 1 input",
        "Project views: 2 to create.",
    ]
    assert run("apply", str(views)) == planned
    assert run("apply", str(views)) == "Project views: nothing to do.\n"
    as_json = json.loads(run("plan", str(views), "--json"))
    assert (as_json["nothing"], [one["kind"] for one in as_json["steps"]]) == (True, ["keep", "keep"])
    assert run("dag").splitlines() == [
        "top  [AUTO, downstream, INITIALIZING]",
        "└── sums  [AUTO, 5m, INITIALIZING]",
        "    └── shop.public.t",
    ]
    status = json.loads(run("status", "--json"))
    assert [(one["name"], one["status"], one["freshness"]) for one in status["stream_tables"]] == [
        ("sums", "INITIALIZING", None),
        ("top", "INITIALIZING", None),
    ]
    options = {
        one["option"]: one for one in json.loads(run("sql", "--json", "DESCRIBE CONNECTOR 'postgres-cdc'"))["rows"]
    }
    assert options["format"]["type"] == "arrow | debezium-json"
    assert (options["database"]["default"], options["port"]["default"]) == ("required", "5432")
    shown = run("status")
    assert "sums" in shown
    assert "INITIALIZING" in shown


def test_status_says_what_needs_a_person() -> None:
    well = StreamTableStatus(
        name="v", mode="AUTO", schedule="1m", status="ACTIVE", status_reason=None, action="FULL", reason="", rows=1,
        pending_rows=0, seconds=1.0, freshness=1.0, stale=False, frontier=None, consecutive_errors=0, retry_at=None,
        error=None, reinit_reason=None,
    )  # fmt: skip
    assert remarks(well) == []
    assert remarks(dataclasses.replace(well, status="SUSPENDED", status_reason="by hand")) == ["is suspended: by hand"]
    at = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    failing = dataclasses.replace(well, error="it broke", consecutive_errors=2, retry_at=at)
    assert remarks(failing) == ["failed 2 times in a row; tried again at 12:30:00: it broke"]
    stale = dataclasses.replace(well, stale=True, freshness=300.0, reinit_reason="t was altered")
    assert remarks(stale) == [
        "is computed anew at its next refresh: t was altered",
        "shows what was 5 min 0 s ago, more than twice its schedule",
    ]
