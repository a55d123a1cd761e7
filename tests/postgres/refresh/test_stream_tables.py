"""Stream tables made, altered and dropped: what is refused leaves nothing behind. No Spark is needed for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import penstock
from penstock.catalog import stream_tables
from penstock.errors import AlreadyExists, Busy, ConfigError, InvalidQuery, NotYet
from penstock.refresh.alter import Change
from penstock.refresh.follow import follow_views


@pytest.fixture
def ps(tmp_path: Path, catalog_db: str, source_db: str) -> Iterator[penstock.Session]:
    with psycopg.connect(source_db, autocommit=True) as admin:
        admin.execute("CREATE TABLE a (id int PRIMARY KEY, x int, y text); CREATE TABLE b (id int PRIMARY KEY, x int)")
        admin.execute("CREATE VIEW big AS SELECT id, x FROM a WHERE x > 10")
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as session:
        session.add_source("shop", source_db, tables=["public.*"])
        yield session


def stored(ps: penstock.Session, name: str) -> stream_tables.StreamTable:
    return stream_tables.get(ps.catalog, name)


def test_create_and_alter_what_needs_no_refresh(ps: penstock.Session) -> None:
    ps.create_stream_table("v", "SELECT id, x FROM a", schedule=" 5M ", cdc_mode="WAL")
    ps.create_stream_table("v", "SELECT id, x FROM a", schedule="5m", cdc_mode="wal")
    made = stored(ps, "v")
    assert (made.status, made.schedule, made.cdc_mode) == ("INITIALIZING", "5m", "wal")
    with pytest.raises(AlreadyExists):
        ps.create_stream_table("v", "SELECT id, x FROM a", schedule="5m")

    assert ps.alter_stream_table("v").change is Change.UNCHANGED
    done = ps.alter_stream_table("v", schedule="*/5 * * * *", mode="full")
    assert (done.change, done.reason) == (Change.ALTERED, "schedule, mode")
    ps.alter_stream_table("v", schedule="downstream", status="SUSPENDED")
    held = stored(ps, "v")
    assert (held.schedule, held.mode, held.status, held.status_reason) == (
        None, "FULL", "SUSPENDED", "suspended by hand",
    )  # fmt: skip
    ps.resume_stream_table("v")
    assert (stored(ps, "v").status, stored(ps, "v").status_reason) == ("INITIALIZING", None)


def test_functions_of_the_source_are_no_part_of_a_query(ps: penstock.Session, source_db: str) -> None:
    """Also not through a view of the source: so none that is dropped or replaced there can change a stream table."""
    with psycopg.connect(source_db, autocommit=True) as admin:
        admin.execute("CREATE FUNCTION twice(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * $1'")
        admin.execute("CREATE VIEW doubled AS SELECT id, twice(x) AS x FROM a")
    for query in ("SELECT id, twice(x) AS x FROM a", "SELECT id, x FROM doubled"):
        with pytest.raises(InvalidQuery, match=r"twice\(integer\)") as refused:
            ps.create_stream_table("v", query)
        assert "source's database" in str(refused.value)
    assert stream_tables.every(ps.catalog) == []


def test_views_of_the_source_are_read_as_it_prints_them(ps: penstock.Session, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as admin:
        admin.execute("""
            CREATE VIEW three AS SELECT a.id, b.x, c.y FROM a JOIN b ON b.id = a.x LEFT JOIN a c ON c.id = b.x
            WHERE a.x IN (1, 2, 3) AND a.y NOT IN ('p', 'q') AND c.y LIKE 'x%';
            CREATE VIEW over AS SELECT t.id, t.y FROM three t JOIN big ON big.id = t.id JOIN b ON b.id = t.id
            WHERE t.y IN ('xa', 'xb')""")
    ps.create_stream_table("v", "SELECT id, y FROM over WHERE id IN (SELECT id FROM three)")
    assert stored(ps, "v").status == "INITIALIZING"


def test_bad_input_changes_nothing(ps: penstock.Session) -> None:
    ps.create_stream_table("v", "SELECT id, x FROM a")
    before = stored(ps, "v")
    for given, says in {
        ("schedule", "5 parsecs"): "not a schedule",
        ("schedule", "61 * * * *"): "not a cron expression",
        ("schedule", "0s"): "too short",
        ("mode", "SOMETIMES"): "no refresh mode",
        ("cdc_mode", "carrier pigeon"): "no cdc_mode",
        ("status", "ERROR"): "cannot be put into status",
        ("query", "SELECT nothing FROM a"): "nothing",
        ("query", "SELECT id FROM v"): "in a circle: v → v",
    }.items():
        with pytest.raises(penstock.errors.PenstockError, match=says):
            ps.alter_stream_table("v", **dict([given]))
    with pytest.raises(NotYet):
        ps.alter_stream_table("v", mode="IMMEDIATE")
    with pytest.raises(ConfigError, match="exclude each other"):
        ps.create_stream_table("w", "SELECT id FROM a", mode="IMMEDIATE", cdc_mode="wal")
    assert stored(ps, "v") == before
    assert stream_tables.lookup(ps.catalog, "w") is None


def test_another_query_over_the_same_columns_is_in_place(ps: penstock.Session) -> None:
    ps.create_stream_table("v", "SELECT id, x FROM a")
    ps.create_stream_table("sums", "SELECT x, count(*) AS n FROM v GROUP BY x")
    made = stored(ps, "v")
    done = ps.alter_stream_table("v", query="SELECT id, x FROM a WHERE x > 1")
    assert done.change is Change.REINITIALIZED
    altered = stored(ps, "v")
    assert (altered.relation_id, altered.written) == (made.relation_id, "SELECT id, x FROM a WHERE x > 1")
    assert altered.reinit_reason is None, "there is nothing yet to compute anew"
    (other,) = (one for one in ps.status().sources[0].tables if one == "public.b")
    ps.alter_stream_table("v", query=f"SELECT id, x FROM {other}")
    assert stream_tables.dependants(ps.catalog, stored(ps, "v").inputs[0]) == ["v"]


def test_other_columns_rebuild_it_unless_somebody_reads_it(ps: penstock.Session) -> None:
    ps.create_stream_table("v", "SELECT id, x FROM a", schedule="1h")
    ps.create_stream_table("over", "SELECT id FROM v")
    with pytest.raises(ConfigError, match="read by over, and the new query changes its columns: x gone; y new"):
        ps.alter_stream_table("v", query="SELECT id, y FROM a")
    assert stored(ps, "v").written == "SELECT id, x FROM a"
    ps.drop_stream_table("over")
    made = stored(ps, "v")
    done = ps.alter_stream_table("v", query="SELECT id, y FROM a")
    assert (done.change, done.reason) == (Change.REBUILT, "x gone; y new")
    assert stored(ps, "v").relation_id != made.relation_id
    assert (stored(ps, "v").schedule, stored(ps, "v").status) == ("1h", "INITIALIZING")
    assert ps.alter_stream_table("v", query="SELECT id, y FROM a WHERE false").change is Change.REINITIALIZED


def test_a_circle_is_refused_with_its_way(ps: penstock.Session) -> None:
    ps.create_stream_table("one", "SELECT id, x FROM a")
    ps.create_stream_table("two", "SELECT id, x FROM one")
    ps.create_stream_table("three", "SELECT id, x FROM two")
    with pytest.raises(ConfigError, match="in a circle: one → three → two → one"):
        ps.alter_stream_table("one", query="SELECT id, x FROM three")


def test_drop_is_refused_while_it_is_read_or_cascades(ps: penstock.Session) -> None:
    for name, query in {"one": "a", "two": "one", "three": "one", "four": "two", "beside": "a"}.items():
        ps.create_stream_table(name, f"SELECT id, x FROM {query}")
    with pytest.raises(ConfigError, match="'one' is read by four, three, two"):
        ps.drop_stream_table("one")
    assert len(ps.status().stream_tables) == 5
    gone = ps.drop_stream_table("one", cascade=True)
    assert sorted(gone) == ["four", "one", "three", "two"]
    assert gone.index("four") < gone.index("two") < gone.index("one") == 3
    assert [one.name for one in ps.status().stream_tables] == ["beside"]


def test_a_view_of_the_source_is_remembered_as_it_was(ps: penstock.Session) -> None:
    ps.create_stream_table("v", "SELECT id FROM big")
    made = stored(ps, "v")
    assert made.written == "SELECT id FROM big"
    assert list(made.source_views) == ["big"]
    assert "10" in made.source_views["big"]
    assert "10" in made.query


def test_a_view_of_the_source_that_changes_is_followed_or_suspends(ps: penstock.Session, source_db: str) -> None:
    ps.create_stream_table("v", "SELECT id, x FROM big")
    ps.create_stream_table("beside", "SELECT id FROM a")

    def look() -> list[str]:
        return follow_views(ps.catalog, ps.engine.plans, ps.home)

    assert look() == []
    with psycopg.connect(source_db, autocommit=True) as admin:
        admin.execute("CREATE OR REPLACE VIEW big AS SELECT id, x FROM a WHERE x > 20")
        assert look() == ["v"]
        followed = stored(ps, "v")
        assert "20" in followed.query
        assert (followed.written, followed.status) == ("SELECT id, x FROM big", "INITIALIZING")
        admin.execute("DROP VIEW big; CREATE VIEW big AS SELECT id FROM a")
        assert look() == ["v"]
        held = stored(ps, "v")
        assert (held.status, held.suspended_by) == ("SUSPENDED", "hand")
        assert str(held.status_reason).startswith("view big of the source was changed: ")
        assert look() == [], "it is told once"
        admin.execute("DROP VIEW big")
        ps.resume_stream_table("v")
        assert stored(ps, "v").status == "INITIALIZING", "as it was defined"
        assert look() == ["v"]
        assert stored(ps, "v").status_reason == "view big of the source was dropped"


def test_alter_waits_for_a_refresh_under_way(ps: penstock.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.refresh import define, round

    ps.create_stream_table("v", "SELECT id FROM a")
    monkeypatch.setattr(define, "WAIT", 0.1)
    with ps.catalog.lease(round.LEASE), pytest.raises(Busy):
        ps.alter_stream_table("v", schedule="1h")
    ps.alter_stream_table("v", schedule="1h")
