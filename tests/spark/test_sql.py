"""The SQL statements from end to end, through `penstock sql` and `execute`."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

import penstock
from penstock.cli.main import main
from penstock.errors import AlreadyExists, ConfigError, InvalidQuery, NotFound, SchemaChanged
from penstock.sql.answer import Answer

Run = Callable[..., list[dict[str, Any]]]
PASSWORD = "not to be seen"


@pytest.fixture
def source(source_db: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(source_db, autocommit=True)
    connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, note text)")
    connection.execute("INSERT INTO t SELECT i, i % 3, 'row ' || i FROM generate_series(1, 30) i")
    return connection


@pytest.fixture
def run(tmp_path: Path, catalog_db: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`penstock sql --json`, in this process and on the Spark session of the tests."""
    monkeypatch.setattr(penstock, "connect", functools.partial(penstock.connect, spark=spark))
    monkeypatch.setenv("PENSTOCK_CATALOG", catalog_db)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()

    def penstock_sql(text: str, *options: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["penstock", "sql", text, "--json", *options])
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.suppress(SystemExit):
            main()
        assert err.getvalue() == ""
        assert PASSWORD not in out.getvalue()
        return [json.loads(line) for line in out.getvalue().splitlines()]

    return penstock_sql


def options_of(dsn: str) -> str:
    given = conninfo_to_dict(dsn)
    return (
        f"connector = 'postgres-cdc', hostname = '{given['host']}', database = '{given['dbname']}', "
        f"username = '{given['user']}', password = '{PASSWORD}'"
        + (f", port = {given['port']}" if "port" in given else "")
    )


@pytest.mark.usefixtures("interpreted")
def test_a_stream_table_from_create_to_drop(run: Run, source: psycopg.Connection[Any], source_db: str) -> None:
    options = options_of(source_db)
    described = run(f"DESCRIBE CONNECTOR 'postgres-cdc' WITH ({options}, 'table.name' = 't')")[0]["rows"]
    assert [(one["column"], one["pg_type"], one["nullable"], one["key"]) for one in described] == [
        ("id", "integer", False, True),
        ("v", "integer", False, False),
        ("note", "text", True, False),
    ]
    run(
        f"CREATE SOURCE TABLE shop (id INT, note VARCHAR, _op VARCHAR) WITH ({options}, 'table.name' = 't', "
        "'slot.name' = 'a_slot_of_mine', 'heartbeat.interval.ms' = 5000);"
        "CREATE STREAM TABLE sums SCHEDULE '1m' MODE DIFFERENTIAL AS SELECT v, count(*) AS n FROM t GROUP BY v"
    )
    slots = source.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()").fetchall()
    assert slots == [("a_slot_of_mine",)]
    source.execute("DELETE FROM t WHERE id = 1")
    refreshed, read = run("REFRESH STREAM TABLE sums; SELECT v, n FROM sums ORDER BY v")
    assert [(one["action"], one["inserted"]) for one in refreshed["rows"]] == [("FULL", 3)]
    assert [(one["v"], one["n"]) for one in read["rows"]] == [(0, 10), (1, 9), (2, 10)]
    (anew,) = run("REFRESH STREAM TABLE sums FULL")
    assert [(one["action"], one["inserted"], one["deleted"]) for one in anew["rows"]] == [("REINITIALIZE", 0, 0)]

    altered, shown = run("ALTER STREAM TABLE sums SUSPEND, SET SCHEDULE '5m'; SHOW STREAM TABLES LIKE 'su%'")
    assert "suspended" in altered["message"]
    assert [(one["name"], one["status"], one["schedule"], one["rows"]) for one in shown["rows"]] == [
        ("sums", "SUSPENDED", "5m", 3)
    ]
    description, statement, source_statement, history = run(
        "DESCRIBE STREAM TABLE sums; SHOW CREATE STREAM TABLE sums; SHOW CREATE SOURCE shop; SHOW HISTORY OF sums"
    )
    assert [one["column"] for one in description["rows"]] == ["v", "n"]
    assert description["properties"]["reads"] == "shop.public.t"
    assert statement["rows"][0]["statement"] == (
        "CREATE STREAM TABLE sums SCHEDULE '5m' MODE DIFFERENTIAL AS\nSELECT v, count(*) AS n FROM t GROUP BY v"
    )
    assert "password=***" in source_statement["rows"][0]["statement"]
    assert [one["action"] for one in history["rows"]] == ["REINITIALIZE", "FULL"]
    assert all(one["round"] for one in history["rows"])
    explained = run("EXPLAIN STREAM TABLE sums; EXPLAIN CREATE STREAM TABLE x AS SELECT max(id) AS m FROM t; SHOW DAG")
    assert all(one["rows"] for one in explained)
    dropped = run("DROP STREAM TABLE IF EXISTS sums, missing; DROP SOURCE shop; SHOW SOURCES")
    assert dropped[0]["message"] == "Dropped: sums. There is no stream table missing."
    assert dropped[2]["rows"] == []
    assert source.execute("SELECT FROM pg_replication_slots WHERE slot_name = 'a_slot_of_mine'").fetchall() == []


def test_statements_that_change_definitions(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str
) -> None:
    """No Spark is needed for any of this."""
    ps.execute(f"CREATE SOURCE shop WITH ({options_of(source_db)}, tables = 't')")
    with pytest.raises(SchemaChanged, match="is integer, not text"):
        ps.execute(f"CREATE SOURCE other (v text) WITH ({options_of(source_db)}, tables = 't')")
    with pytest.raises(SchemaChanged, match="has no column w"):
        ps.execute(f"CREATE SOURCE other (w text) WITH ({options_of(source_db)}, tables = 't')")

    ps.execute("CREATE STREAM TABLE a AS SELECT id, v FROM t; CREATE STREAM TABLE b AS SELECT v FROM a")
    assert _said(ps, "CREATE STREAM TABLE a AS SELECT id, v FROM t") == "Stream table a is as asked for already."
    assert "nothing was changed" in _said(ps, "CREATE STREAM TABLE IF NOT EXISTS a AS SELECT 1 AS x")
    with pytest.raises(AlreadyExists):
        ps.execute("CREATE STREAM TABLE a AS SELECT v FROM t")
    assert "is altered" in _said(ps, "CREATE OR REPLACE STREAM TABLE a MODE FULL AS SELECT id, v FROM t WHERE id > 3")
    assert "rebuilt" in _said(ps, "ALTER STREAM TABLE b AS SELECT id FROM a")
    assert ps.dag().splitlines() == [
        "b  [AUTO, downstream, INITIALIZING]",
        "└── a  [FULL, downstream, INITIALIZING]",
        "    └── shop.public.t",
    ]
    with pytest.raises(ConfigError, match="is read by b"):
        ps.execute("DROP STREAM TABLE a")
    with pytest.raises(InvalidQuery, match="line 2, column 1"):
        ps.execute("DROP STREAM TABLE b;\nNONSENSE")
    assert "b" in _said(ps, "SHOW STREAM TABLES", column=0)  # nothing was run of that
    with pytest.raises(NotFound):
        ps.execute("REFRESH STREAM TABLE missing")
    with pytest.raises(ConfigError, match="is read by stream tables"):
        ps.execute("DROP SOURCE shop")
    ps.execute("CREATE STREAM TABLE c AS SELECT id FROM b; CREATE STREAM TABLE d AS SELECT id FROM a")
    with pytest.raises(ConfigError, match="is read by"):
        ps.execute("DROP STREAM TABLE c, a")  # d reads a, and c is still there
    with pytest.raises(NotFound):
        ps.execute("DROP STREAM TABLE c, missing")
    assert _said(ps, "DROP STREAM TABLE d") == "Dropped: d."
    assert _said(ps, "DROP STREAM TABLE b, c") == "Dropped: c, b."
    ps.execute("CREATE STREAM TABLE b AS SELECT id FROM a")
    assert _said(ps, "DROP SOURCE shop CASCADE") == "Source shop is dropped, and with it a, b."
    assert _said(ps, "DROP SOURCE IF EXISTS shop") == "There is no source shop; nothing was changed."


def _said(ps: penstock.Session, text: str, column: int | None = None) -> Any:
    answer = ps.execute(text)
    assert isinstance(answer, Answer)
    return answer.message if column is None else [row[column] for row in answer]
