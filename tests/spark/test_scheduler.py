"""Stream tables that run themselves: rounds side by side, failures that stay where they are, one scheduler at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.catalog import relations, stream_tables
from penstock.errors import RefreshError
from penstock.refresh import compute
from penstock.refresh.alter import Change
from penstock.refresh.scheduler import Scheduler

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE a (id int PRIMARY KEY, x int, y int); CREATE TABLE b (id int PRIMARY KEY, x int)"
        )
        connection.execute("INSERT INTO a SELECT i, i % 5, 1 FROM generate_series(1, 40) i")
        connection.execute("INSERT INTO b SELECT i, i FROM generate_series(1, 10) i")
        yield connection


def rows(ps: penstock.Session, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in ps.table(name).toArrow().to_pylist())


def stored(ps: penstock.Session, name: str) -> stream_tables.StreamTable:
    return stream_tables.get(ps.catalog, name)


def lines(ps: penstock.Session, name: str) -> list[str]:
    return [line.action for line in reversed(ps.history(name))]


def test_a_failure_stays_where_it_is_and_ends_in_error_until_somebody_resumes(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("inverse", "SELECT id, 10 / y AS q FROM a", schedule="on-commit")
    ps.create_stream_table("over", "SELECT count(*) AS n FROM inverse", schedule="on-commit")
    ps.create_stream_table("other", "SELECT x, count(*) AS n FROM a GROUP BY x", schedule="on-commit")
    scheduler = Scheduler(ps.engine, threading.Event())
    assert {name: one.action for name, one in scheduler.tick().items()} == dict.fromkeys(
        ("inverse", "over", "other"), "FULL"
    )
    assert {line.initiated_by for line in ps.history("over")} == {"SCHEDULER"}
    assert scheduler.due() == []

    db.execute("UPDATE a SET y = 0 WHERE id = 1")
    ps.catch_up()
    done = scheduler.tick()
    assert "inverse" not in done
    assert (done["over"].action, done["over"].reason) == ("SKIP", "it reads inverse, which could not be refreshed")
    assert done["other"].action == "NO_DATA"
    assert stored(ps, "inverse").consecutive_errors == 1
    assert scheduler.due() == [], "it is not tried again before its pause is over"
    for errors in (2, 3):
        ps.catalog.connection.execute("UPDATE stream_tables SET retry_at = NULL")
        scheduler.tick()
        assert stored(ps, "inverse").consecutive_errors == errors
    failed = stored(ps, "inverse")
    assert failed.status == "ERROR"
    assert "zero" in str(failed.status_reason).lower()
    ps.catalog.connection.execute("UPDATE stream_tables SET retry_at = NULL, tried_at = tried_at - interval '1 hour'")
    db.execute("UPDATE a SET y = 2 WHERE id = 2")
    ps.catch_up()
    done = scheduler.tick()
    assert ("inverse" in done, done["over"].action) == (True, "SKIP")
    assert lines(ps, "inverse") == ["FULL", "FAILED", "FAILED", "FAILED", "SKIP"]
    assert lines(ps, "over").count("SKIP") == 1, "what is the same is said once"
    with pytest.raises(RefreshError, match=r"inverse could not be refreshed.*(?i:zero)"):
        ps.refresh("over")

    db.execute("UPDATE a SET y = 5 WHERE id = 1")
    ps.catch_up()
    ps.resume_stream_table("inverse")
    assert (stored(ps, "inverse").status, stored(ps, "inverse").consecutive_errors) == ("ACTIVE", 0)
    done = scheduler.tick()
    assert (done["inverse"].action, done["over"].action) == ("DIFFERENTIAL", "NO_DATA")
    assert rows(ps, "inverse")[:3] == [(1, 2), (2, 5), (3, 10)]


def test_independent_branches_are_computed_at_the_same_time(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two branches meet inside Spark's part of the work; what shares a view is one group and one round."""
    ps.add_source("shop", source_db, tables=["public.*"])
    for name, query in {
        "left_one": "SELECT x, count(*) AS n FROM a GROUP BY x",
        "left_two": "SELECT sum(n) AS n FROM left_one",
        "right_one": "SELECT id, x FROM b WHERE x > 3",
    }.items():
        ps.create_stream_table(name, query, schedule="1s")
    meeting = threading.Barrier(2, timeout=60)
    real = compute.full_refresh

    def together(reader: Any, plan: Any, *rest: Any) -> Any:
        if plan.view.name in ("left_one", "right_one"):
            meeting.wait()
        return real(reader, plan, *rest)

    monkeypatch.setattr(compute, "full_refresh", together)
    Scheduler(ps.engine, threading.Event()).tick()
    assert rows(ps, "left_two") == [(40,)]
    assert [row[0] for row in rows(ps, "right_one")] == list(range(4, 11))
    rounds = {name: ps.history(name)[0].round for name in ("left_one", "left_two", "right_one")}
    assert rounds["left_one"] == rounds["left_two"] != rounds["right_one"]
    assert len({ps.history(name)[0].frontier for name in rounds}) == 1


def test_a_quick_branch_goes_on_while_a_slow_one_is_computed(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed meanwhile is captured, and in the quick one before the slow one is done; that one follows."""
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("slow", "SELECT x, count(*) AS n FROM a GROUP BY x", schedule="on-commit")
    ps.create_stream_table("quick", "SELECT id, x FROM b WHERE x > 3", schedule="on-commit")
    ps.create_stream_table("behind", "SELECT count(*) AS n FROM slow", schedule="on-commit")
    ps.refresh_all()
    go_on, real = threading.Event(), compute.differential

    def computed(reader: Any, plan: Any, *rest: Any) -> Any:
        if plan.view.name == "slow":
            assert go_on.wait(60)
        return real(reader, plan, *rest)

    def capture() -> None:
        db.execute("INSERT INTO b SELECT max(id) + 1, 50 FROM b; INSERT INTO a SELECT max(id) + 1, 9, 9 FROM a")
        ps.catch_up()
        if len(ps.history("quick")) == 3:
            go_on.set()

    monkeypatch.setattr(compute, "differential", computed)
    capture()
    scheduler = Scheduler(ps.engine, threading.Event(), capture)
    scheduler.tick()
    assert lines(ps, "slow") == ["FULL", "DIFFERENTIAL"]
    assert lines(ps, "behind") == ["FULL", "DIFFERENTIAL"]
    assert len(lines(ps, "quick")) >= 3
    assert (ps.history("slow")[0].frontier, ps.history("behind")[0].frontier) == (
        stored(ps, "behind").frontier,
        stored(ps, "slow").frontier,
    )
    assert stored(ps, "slow").frontier != stored(ps, "quick").frontier
    scheduler.tick()
    assert rows(ps, "quick") == db.execute("SELECT id, x FROM b WHERE x > 3 ORDER BY 1").fetchall()
    assert rows(ps, "slow") == db.execute("SELECT x, count(*) FROM a GROUP BY x ORDER BY 1").fetchall()
    assert rows(ps, "behind") == [(6,)]


def test_after_a_full_refresh_nothing_makes_the_next_one_full_too(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    """The frontier moves and the changes are released, also for a source that others share; no slot is touched."""
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("sums", "SELECT x, count(*) AS n, sum(y) AS y FROM a GROUP BY x")
    ps.create_stream_table("late", "SELECT id FROM a WHERE x = 1")
    ps.refresh_all()
    db.execute("INSERT INTO a SELECT i, i % 7, 1 FROM generate_series(100, 6000) i")
    ps.catch_up()
    done = ps.refresh("sums")
    assert (done.action, done.changed_rows) == ("FULL", 5901)
    assert "more than 15%" in done.reason
    ps.publish("a")
    ps.engine.maintain()
    table = relations.find(ps.catalog, "a")
    assert table.retained < stored(ps, "sums").frontier["shop"], "the other one still needs the changes"  # type: ignore[index]
    assert ps.refresh("late").action in ("DIFFERENTIAL", "FULL")
    with penstock.connect(ps.home.root, ps.catalog.dsn, ps.spark, {"changelog_retention": 0}) as other:
        other.engine.maintain()
    assert relations.segments(ps.catalog, table.id, 10**18, 1 << 62) == []
    assert relations.find(ps.catalog, "a").retained > 0, "what nobody needs is released"
    db.execute("INSERT INTO a VALUES (10000, 1, 1)")
    ps.catch_up()
    done = ps.refresh("sums")
    assert (done.action, done.reason) == ("DIFFERENTIAL", "1 changed rows")
    assert sum(row[1] for row in rows(ps, "sums")) == 5942


def test_an_altered_query_is_exact_for_it_and_for_what_reads_it(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("v", "SELECT id, x FROM a WHERE x < 2", initialize=True)
    ps.create_stream_table("sums", "SELECT x, count(*) AS n FROM v GROUP BY x", initialize=True)
    assert [line.initiated_by for line in ps.history("sums")] == ["INITIAL"]
    assert ps.alter_stream_table("v", query="SELECT id, x FROM a WHERE x > 2").change is Change.REINITIALIZED
    assert rows(ps, "sums") == [(0, 8), (1, 8)], "nothing moves before the next refresh"
    done = ps.engine.refresh(["sums"])  # at the same frontier as before
    assert {name: one.action for name, one in done.items()} == {"v": "REINITIALIZE", "sums": "REINITIALIZE"}
    assert (done["v"].reason, done["v"].inserted, done["v"].deleted) == ("the query was altered", 16, 16)
    assert rows(ps, "sums") == [(3, 8), (4, 8)]
    assert {stored(ps, name).reinit_reason for name in ("v", "sums")} == {None}
    db.execute("DELETE FROM a WHERE x = 3")
    ps.catch_up()
    assert ps.refresh("sums").action == "DIFFERENTIAL"
    assert rows(ps, "sums") == [(4, 8)]

    ps.alter_stream_table("sums", query="SELECT count(*) AS n FROM v")
    with pytest.raises(penstock.errors.ConfigError, match="never refreshed"):
        ps.table("sums")
    assert ps.refresh("sums").action == "FULL"
    assert rows(ps, "sums") == [(8,)]
    assert lines(ps, "sums") == ["FULL", "REINITIALIZE", "DIFFERENTIAL", "FULL"]
    assert {one.name: one.rows for one in ps.status().stream_tables} == {"v": 8, "sums": 1}
    ps.publish("sums")


def test_one_that_is_suspended_holds_what_reads_it(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("v", "SELECT id, x FROM a")
    ps.create_stream_table("over", "SELECT count(*) AS n FROM v", schedule="on-commit")
    ps.refresh("over")
    ps.alter_stream_table("v", status="SUSPENDED")
    db.execute("DELETE FROM a WHERE id < 11")
    ps.catch_up()
    done = ps.refresh("over")
    assert (done.action, done.reason) == ("SKIP", "it reads v, which is suspended")
    assert rows(ps, "over") == [(40,)]
    ps.resume_stream_table("v")
    assert ps.refresh("over").action == "DIFFERENTIAL"
    assert (rows(ps, "over"), stored(ps, "over").status) == ([(30,)], "ACTIVE")


@contextmanager
def running(ps: penstock.Session) -> Iterator[None]:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            ps.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ps.stop()
        thread.join()
        assert not failures, failures


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


def computed(ps: penstock.Session, name: str) -> list[stream_tables.Refreshed]:
    return [line for line in ps.history(name, 1000) if line.action not in ("NO_DATA", "SKIP")]


def test_two_schedulers_never_refresh_one_table_twice(
    ps: penstock.Session,
    db: psycopg.Connection[Any],
    source_db: str,
    catalog_db: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    ps.add_source("shop", source_db, tables=["public.*"])
    ps.create_stream_table("sums", "SELECT x, count(*) AS n FROM a GROUP BY x", schedule="on-commit")
    ps.create_stream_table("over", "SELECT sum(n) AS n FROM sums", schedule="1s")
    settings = {"publish_interval": "manual"}
    with penstock.connect(tmp_path / "home", catalog_db, spark, settings) as second, ExitStack() as first:
        first.enter_context(running(ps))
        until(lambda: bool(ps.history("over")))
        with running(second):
            db.execute("INSERT INTO a VALUES (1001, 1, 1)")
            until(lambda: second.history("over")[0].frontier != second.history("over")[-1].frontier)
            assert second.refresh("over").frontier, "by hand it waits for its turn"
            assert {line.initiated_by for line in second.history("sums")} <= {"SCHEDULER", "MANUAL"}
            first.close()
            ps.close()
            before = len(computed(second, "over"))
            db.execute("INSERT INTO a VALUES (1002, 1, 1)")
            until(lambda: len(computed(second, "over")) > before)
        assert rows(second, "over") == [(42,)]
        lines_of = [computed(second, name) for name in ("sums", "over")]
    for done in lines_of:
        assert len({str(line.frontier) for line in done}) == len(done), "one frontier was computed twice"
        assert not [line for line in done if line.error]
