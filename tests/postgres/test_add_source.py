"""Adding a source: every bad input is one clear error with a hint, and leaves nothing behind on either side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import penstock
from penstock.embedded import EmbeddedPostgres
from penstock.errors import (
    AlreadyExists,
    AmbiguousName,
    Busy,
    ConfigError,
    InvalidQuery,
    MissingPrivilege,
    NotFound,
    PenstockError,
    SourceUnreachable,
    UnsafeTable,
    UnsupportedQuery,
)

pytestmark = pytest.mark.since(11, "a source needs no option about TRUNCATE")


@pytest.fixture
def admin(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE good (id int PRIMARY KEY, v text); INSERT INTO good VALUES (1, 'a')")
        connection.execute("CREATE TABLE keyless (v text); INSERT INTO keyless VALUES ('a')")
        yield connection


def assert_untouched(ps: penstock.Session, admin: psycopg.Connection[Any]) -> None:
    """No slot, no publication, no source here; and the application's own statements work."""
    slots = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    assert admin.execute(slots).fetchall() == []
    assert admin.execute("SELECT pubname FROM pg_publication").fetchall() == []
    assert ps.status().sources == ()
    admin.execute("UPDATE good SET v = 'b'; UPDATE keyless SET v = 'b'; DELETE FROM keyless; DELETE FROM good")


@pytest.fixture
def weak_role(admin: psycopg.Connection[Any]) -> Iterator[str]:
    name = f"weak_{admin.info.dbname}"
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
    admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


BAD = [
    ("nothing listens", lambda dsn: dsn.replace("port=5432", "port=1"), ["good"], SourceUnreachable),
    ("no such database", lambda dsn: dsn.replace("dbname=", "dbname=no_"), ["good"], PenstockError),
    ("no DSN", lambda dsn: "nonsense", ["good"], ConfigError),
    ("no such table", lambda dsn: dsn, ["good", "goood"], NotFound),
    ("no key", lambda dsn: dsn, ["good", "keyless"], UnsafeTable),
    ("no key among all", lambda dsn: dsn, ["public.*"], UnsafeTable),
    ("no tables", lambda dsn: dsn, [], ConfigError),
]


@pytest.mark.parametrize(("change", "tables", "error"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_source_is_refused_and_nothing_is_left(
    ps: penstock.Session, admin: psycopg.Connection[Any], source_db: str,
    change: Callable[[str], str], tables: list[str], error: type[PenstockError],
) -> None:  # fmt: skip
    with pytest.raises(error) as caught:
        ps.add_source("shop", change(source_db), tables=tables)
    assert caught.value.hint
    assert_untouched(ps, admin)


def test_a_role_without_privileges_is_told_which(
    ps: penstock.Session, admin: psycopg.Connection[Any], source_db: str, weak_role: str
) -> None:
    dsn = source_db.replace("user=postgres", f"user={weak_role}")
    with pytest.raises(MissingPrivilege, match="REPLICATION") as caught:
        ps.add_source("shop", dsn, tables=["good"])
    assert caught.value.hint
    admin.execute(sql.SQL("ALTER ROLE {} REPLICATION").format(sql.Identifier(weak_role)))
    with pytest.raises(MissingPrivilege) as caught:
        ps.add_source("shop", dsn, tables=["good"])
    assert caught.value.hint
    assert_untouched(ps, admin)


def test_a_wrong_password_says_so(ps: penstock.Session, tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "guarded", {"wal_level": "logical"})
    try:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE app LOGIN REPLICATION PASSWORD 'right'")
            hba = tmp_path / "guarded" / "pg_hba.conf"
            hba.write_text("local all postgres trust\nlocal all all scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
        dsn = server.dsn.replace("user=postgres", "user=app password=hunter2")
        with pytest.raises(PenstockError, match="password") as caught:
            ps.add_source("shop", dsn, tables=["good"])
        assert caught.value.hint
        assert "hunter2" not in str(caught.value)
    finally:
        server.stop()


def test_adding_again_does_nothing_and_differently_is_an_error(
    ps: penstock.Session, admin: psycopg.Connection[Any], source_db: str
) -> None:
    for _ in range(2):
        ps.add_source("shop", source_db, tables=["good"])
    ps.add_source("shop", source_db, tables=["public.good"])  # the same tables, spelled otherwise
    with pytest.raises(AlreadyExists):
        ps.add_source("shop", source_db, tables=["good"], copy_workers=2)
    ps.remove_source("shop")
    assert_untouched(ps, admin)
    with pytest.raises(NotFound, match="no source 'shop'"):
        ps.remove_source("shop")


def test_two_homes_may_capture_one_database_under_one_name(
    ps: penstock.Session,
    admin: psycopg.Connection[Any],
    source_db: str,
    tmp_path: Path,
    source_server: EmbeddedPostgres,
) -> None:
    ps.add_source("shop", source_db, tables=["good"])
    with penstock.connect(home=tmp_path / "other") as other:
        other.add_source("shop", source_db, tables=["good"])
        ps.remove_source("shop")
        admin.execute("INSERT INTO good VALUES (2, 'still captured')")
        frontier = other.catch_up()
        rows = other.engine.reader.rows_arrow(*other.engine.position("good", frontier)[:2])
        assert sorted(rows["id"].to_pylist()) == [1, 2]
        other.remove_source("shop")
    assert_untouched(ps, admin)


def test_a_second_process_on_the_home_is_told_who_has_it(
    ps: penstock.Session, admin: psycopg.Connection[Any], source_db: str, catalog_db: str, tmp_path: Path
) -> None:
    ps.add_source("shop", source_db, tables=["good"])
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as second:
        with pytest.raises(Busy, match=r"source shop is in use on this home by process \d+") as caught:
            second.catch_up()
        assert caught.value.hint
        assert second.status().sources[0].name == "shop"


def test_a_bad_query_is_refused_by_name_and_leaves_nothing(
    ps: penstock.Session, admin: psycopg.Connection[Any], source_db: str
) -> None:
    admin.execute("CREATE SCHEMA extra; CREATE TABLE extra.good (id int PRIMARY KEY)")
    ps.add_source("shop", source_db, tables=["public.good", "extra.good"])
    bad: list[tuple[str, type[PenstockError], str]] = [
        ("SELEC 1", InvalidQuery, "syntax error at line 1"),
        ("SELECT id FROM public.good WHERE", InvalidQuery, "syntax error|line 1"),
        ("SELECT idd FROM public.good", InvalidQuery, "idd"),
        ("SELECT id FROM nowhere", PenstockError, "nowhere"),
        ("SELECT id FROM good", AmbiguousName, "shop.extra.good, shop.public.good"),
        ("SELECT id FROM public.good TABLESAMPLE SYSTEM (10)", UnsupportedQuery, "TABLESAMPLE"),
        ("SELECT random() FROM public.good", UnsupportedQuery, r"random\(\)"),
    ]
    for query, error, match in bad:
        with pytest.raises(error, match=match) as caught:
            ps.create_stream_table("v", query)
        assert caught.value.hint, query
    for arguments in ({"mode": "SOMETIMES"}, {"schedule": "soon"}, {"mode": "IMMEDIATE"}, {"dialect": "tsql"}):
        with pytest.raises(ConfigError) as problem:
            ps.create_stream_table("v", "SELECT id FROM public.good", **arguments)
        assert problem.value.hint
    assert ps.status().stream_tables == ()


def test_a_view_of_the_source_is_put_in_its_place(
    ps: penstock.Session, admin: psycopg.Connection[Any], source_db: str
) -> None:
    admin.execute(
        "CREATE SCHEMA extra; CREATE VIEW evens AS SELECT id, v FROM good WHERE id % 2 = 0; "
        "CREATE VIEW extra.counted AS SELECT v, count(*) AS n FROM evens e GROUP BY v HAVING count(*) > 1; "
        "CREATE VIEW extra.evens AS SELECT 1 AS id; CREATE MATERIALIZED VIEW kept AS SELECT id FROM good"
    )
    ps.add_source("shop", source_db, tables=["public.good"])
    query = "WITH c AS (SELECT * FROM extra.counted) SELECT c.n, e.id FROM c JOIN shop.public.evens e ON e.v = c.v"
    ps.create_stream_table("v", query, mode="DIFFERENTIAL")
    ps.create_stream_table("v", query, mode="DIFFERENTIAL")  # the same again
    assert "scan shop.public.good" in ps.explain("v")
    with pytest.raises(AmbiguousName, match=r"shop\.extra\.evens, shop\.public\.evens"):
        ps.create_stream_table("w", "SELECT id FROM evens")
    with pytest.raises(PenstockError, match="kept"):
        ps.create_stream_table("w", "SELECT id FROM kept")
    explained = ps.explain("v")
    admin.execute("CREATE OR REPLACE VIEW evens AS SELECT id, v FROM good WHERE id % 2 = 1")
    ps.create_stream_table("v", query, mode="DIFFERENTIAL")  # the same text: it stays what it was
    assert ps.explain("v") == explained
