"""What can be seen of a home from outside: catalog views, events, metrics. Refreshes are written as the engine does."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock.catalog import alerts, stream_tables
from penstock.catalog.stream_tables import Refreshed
from penstock.cut import Frontier
from penstock.lsn import Lsn
from penstock.refresh import watch
from penstock.refresh.positions import readable
from penstock.refresh.watch import look

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "penstock.json"


@pytest.fixture
def home(ps: penstock.Session, source_db: str) -> penstock.Session:
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t VALUES (1, 1), (2, 2)")
    ps.add_source("shop", source_db, tables=["t"])
    ps.create_stream_table("sums", "SELECT v, count(*) AS n FROM t GROUP BY v", schedule="1m")
    ps.create_stream_table("over", "SELECT max(n) AS n FROM sums", cdc_mode="auto")
    return ps


def refreshed(
    ps: penstock.Session, name: str, *, seconds: float = 2.0, ago: str = "0s", error: str | None = None
) -> None:
    """A refresh of two rows, so long ago."""
    table = stream_tables.get(ps.catalog, name)
    frontier = readable(ps.catalog)
    line = Refreshed(name, "FULL", "first refresh", 2, 0, seconds, frontier)
    if error is not None:
        line = Refreshed(name, "FAILED", "", 0, 0, seconds, None, error)
        stream_tables.record(ps.catalog, table.relation_id, line)
        return
    with ps.catalog.lease("stream tables") as lease, ps.catalog.commit(lease, None, "refresh") as commit:
        stream_tables.reach_all(commit, {table.relation_id: frontier})
        stream_tables.record_all(commit, {table.relation_id: line})
        stream_tables.settle(commit, [table.relation_id])
        commit.connection.execute(
            "UPDATE rounds SET committed_at = now() - %s::interval WHERE id = %s", (ago, commit.round)
        )


def heard(ps: penstock.Session, act: Callable[[], Any]) -> list[dict[str, Any]]:
    with psycopg.connect(ps.catalog.dsn, autocommit=True) as listener:
        listener.execute(f"LISTEN {alerts.CHANNEL}")
        act()
        return [json.loads(one.payload) for one in listener.notifies(timeout=0.3)]


def test_views_tell_what_python_tells(home: penstock.Session, source_db: str) -> None:
    assert [one.populated for one in home.monitor.stream_tables()] == [False, False]
    assert home.monitor.staleness("sums") is None
    refreshed(home, "sums", ago="5m")
    refreshed(home, "sums", error="it broke")
    with psycopg.connect(source_db, autocommit=True) as source:
        source.execute("INSERT INTO t VALUES (3, 3)")
    home.engine.captures.catch_up("shop")
    home.catalog.connection.execute("UPDATE positions SET settled = captured; UPDATE segments SET form = 'settled'")

    (over, sums) = home.monitor.stream_tables()
    assert (sums.rows, sums.pending_rows, sums.stale, sums.last_error) == (2, 1, True, "it broke")
    assert sums.staleness is not None
    assert 302 <= sums.staleness < 330  # five minutes, and the two seconds that the refresh took
    assert (over.populated, over.schedule, over.stale) == (False, None, False)
    (stats,) = home.monitor.refresh_stats("sums")
    assert (stats.refreshes, stats.successful, stats.failed, stats.full, stats.rows_inserted) == (2, 1, 1, 1, 2)
    assert [line.action for line in home.monitor.history(["sums"])] == ["FAILED", "FULL"]
    (cdc,) = home.monitor.cdc_status()
    assert (cdc.stream_table, cdc.source, cdc.table_name, cdc.cdc_mode) == ("sums", "shop", "public.t", "wal")
    assert cdc.readable == cdc.captured != cdc.shown
    assert [(one.stream_table, one.reads, one.kind) for one in home.monitor.dependencies()] == [
        ("over", "sums", "stream table"),
        ("sums", "shop.public.t", "table"),
    ]
    (slot,) = home.monitor.slot_health()
    assert slot.problem is None
    (health,) = home.monitor.cdc_health()
    assert (health.source, health.cdc_mode, health.tables, health.healthy) == ("shop", "wal", 1, True)
    assert (health.captured, health.slot.confirmed is not None) == (cdc.captured, True)
    alerts.tell(home.catalog, alerts.Alert("slot", "shop", "the slot is far behind", "Look at it."))
    (health,) = home.monitor.cdc_health()
    assert ([one.message for one in health.alerts], health.healthy) == (["the slot is far behind"], False)
    (status,) = [one for one in home.status().stream_tables if one.name == "sums"]
    assert (status.error, status.pending_rows, status.stale) == ("it broke", 1, True)
    with psycopg.connect(home.catalog.dsn) as client:  # as anybody sees it
        seen = client.execute("SELECT name, rows FROM penstock.stream_tables_info ORDER BY name").fetchall()
        assert seen == [("over", 0), ("sums", 2)]
        for view in ("refresh_stats", "refresh_log", "sources_info", "cdc_status", "dependencies_info", "alerts_now"):
            text = str(client.execute(f"SELECT row_to_json(x) FROM penstock.{view} x").fetchall())
            assert "password" not in text


def test_a_caught_up_table_is_as_fresh_as_its_capture(home: penstock.Session) -> None:
    refreshed(home, "sums", ago="1h")
    found = home.monitor.stream_table("sums")
    assert found.staleness is not None
    assert found.staleness < 60
    assert not found.stale


def test_each_event_is_told(home: penstock.Session) -> None:
    (completed,) = heard(home, lambda: refreshed(home, "sums"))
    assert (completed["event"], completed["subject"], completed["action"]) == ("refresh_completed", "sums", "FULL")
    assert completed["round"] > 0
    assert completed["frontier"] == json.loads(str(readable(home.catalog)))
    (failed,) = heard(home, lambda: refreshed(home, "sums", error="it broke\n" * 5000))
    assert failed["event"] == "refresh_failed"
    assert failed["error"].startswith("it broke")
    table = stream_tables.get(home.catalog, "sums")
    wide = Frontier({f"source_{n}": Lsn(n) for n in range(500)})
    line = Refreshed("sums", "FULL", "", 0, 0, 0.0, wide)
    (long,) = heard(home, lambda: stream_tables.record(home.catalog, table.relation_id, line))
    assert (long["event"], "frontier" in long) == ("refresh_completed", False)
    skip = Refreshed("sums", "SKIP", "suspended by hand", 0, 0, 0.0, table.frontier)
    (skipped,) = heard(home, lambda: stream_tables.record(home.catalog, table.relation_id, skip))
    assert skipped["event"] == "refresh_skipped"
    (ended,) = heard(home, lambda: stream_tables.set_status(home.catalog, table.relation_id, "ERROR", "it broke"))
    assert (ended["event"], ended["reason"]) == ("auto_suspended", "it broke")
    home.alter_stream_table("sums", status="ACTIVE")
    (suspended,) = heard(home, lambda: home.alter_stream_table("sums", status="SUSPENDED"))
    assert (suspended["event"], suspended["status"]) == ("suspended", "SUSPENDED")
    (resumed,) = heard(home, lambda: home.alter_stream_table("sums", status="ACTIVE"))
    assert resumed["event"] == "resumed"
    told = heard(
        home, lambda: home.alter_stream_table("sums", query="SELECT v, count(*) AS n FROM t WHERE v > 0 GROUP BY v")
    )
    assert ("reinitialize_needed", "sums") in [(one["event"], one["subject"]) for one in told]


def test_what_nobody_did_is_told_once(home: penstock.Session, source_db: str) -> None:
    refreshed(home, "sums", ago="5m")
    home.catalog.connection.execute("UPDATE positions SET settled = settled + 8, captured = captured + 8")
    home.catalog.connection.execute("UPDATE sources SET options = '{\"max_wal_lag_bytes\": 1}'")
    told = heard(home, lambda: (look(home.catalog), look(home.catalog)))
    assert sorted((one["event"], one["subject"]) for one in told) == [("slot_lag_warning", "shop"), ("stale", "sums")]
    assert {one.kind for one in home.status().alerts} == {"stale", "slot_lag_warning"}
    refreshed(home, "sums")
    home.catalog.connection.execute("UPDATE sources SET options = '{}'")
    look(home.catalog)
    assert home.status().alerts == ()


def test_a_run_is_watched(home: penstock.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "INTERVAL", 0.05)
    home.catalog.connection.execute("UPDATE sources SET options = '{\"max_wal_lag_bytes\": 1}'")
    with watch.Watch(home.engine):
        for _ in range(200):
            if alerts.now(home.catalog):
                break
            time.sleep(0.05)
    assert [one.kind for one in alerts.now(home.catalog)] == ["slot_lag_warning"]


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        return str(answer.read().decode())


def test_metrics_are_served_and_the_dashboard_asks_for_them(home: penstock.Session) -> None:
    with closing(home.serve_metrics(0)) as server:
        refreshed(home, "sums", seconds=0.2)
        refreshed(home, "sums", error="it broke")
        first, text = (scraped(server.port) for _ in range(2))
    assert 'penstock_refreshes_total{action="FULL",stream_table="sums"} 1.0' in first  # and once only
    assert 'penstock_stream_table_rows{stream_table="sums"} 2.0' in text
    assert 'penstock_refreshes_total{action="FULL",stream_table="sums"} 1.0' in text
    assert 'penstock_refresh_errors_total{stream_table="sums"} 1.0' in text
    assert 'penstock_refresh_duration_seconds_bucket{le="0.25",stream_table="sums"} 1.0' in text
    assert 'penstock_source_up{source="shop"} 1.0' in text
    assert 'penstock_stream_table_status{status="INITIALIZING",stream_table="over"} 1.0' in text
    served = {
        name for name in re.findall(r"^# TYPE (penstock_\w+)", text, re.MULTILINE) if not name.endswith("_created")
    }
    dashboard = json.loads(DASHBOARD.read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))
    asked += " ".join(one.get("definition", "") for one in dashboard["templating"]["list"])
    names = {re.sub(r"_bucket$", "", name) for name in re.findall(r"penstock_\w+", asked)}
    assert names == served
