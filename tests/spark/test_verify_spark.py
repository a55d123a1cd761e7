"""Stream tables are verified against the source or computed anew, and what differs is put right where it is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg import sql
from servers import EmbeddedPostgres
from wrong_rows import put

import penstock
from penstock.refresh import verify


@pytest.fixture
def second_db(source_db: str, source_server: EmbeddedPostgres) -> Iterator[str]:
    """Another database on the same server, for a source of its own."""
    name = source_db.partition("dbname=")[2].split()[0] + "_b"
    with psycopg.connect(source_server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield source_server.dsn_of(name)
        mine = "FROM pg_replication_slots WHERE database = %s"
        admin.execute(f"SELECT pg_terminate_backend(active_pid) {mine} AND active".encode(), (name,))
        for _ in range(100):
            row = admin.execute(f"SELECT count(*) {mine} AND active".encode(), (name,)).fetchone()
            if row == (0,):
                break
            admin.execute("SELECT pg_sleep(0.05)")
        admin.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}".encode(), (name,))
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_what_differs_is_found_and_put_right(ps: penstock.Session, source_db: str, second_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as db, psycopg.connect(second_db, autocommit=True) as other:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, g int, v numeric(10,2), f float8)")
        db.execute("INSERT INTO t SELECT i, i % 3, i, i / 7.0 FROM generate_series(1, 300) i")
        other.execute("CREATE TABLE names (g int PRIMARY KEY, name text)")
        other.execute("INSERT INTO names VALUES (0, 'zero'), (1, 'one'), (2, 'two')")
        ps.add_source("shop", source_db, tables=["t"])
        ps.add_source("other", second_db, tables=["names"])
        ps.create_stream_table("sums", "SELECT g, count(*) AS n, sum(v) AS v, sum(f) AS f FROM t GROUP BY g")
        ps.create_stream_table("named", "SELECT n.name, t.id FROM t JOIN names n ON n.g = t.g WHERE t.id < 10")
        ps.catch_up()
        ps.refresh_all()
        outcome = ps.verify()
        assert outcome.ok, str(outcome)
        assert outcome.rows == {"shop.public.t": 300, "other.public.names": 3, "sums": 3, "named": 9}

        # A wrong row of a table is wrong in the views over it; a row of a view is wrong by itself.
        four = {"id": 4, "g": 1, "v": Decimal(4), "f": 4 / 7.0}
        zero = next(row.asDict() for row in ps.table("sums").collect() if row["g"] == 0)
        put(ps, "t", [(four, -1), (four | {"v": Decimal(5)}, 1)])
        put(ps, "sums", [(zero, -1), (zero | {"n": zero["n"] + 1}, 1)])
        put(ps, "named", [({"name": "two", "id": 5}, -1)])
        found = {one.relation: one for one in ps.verify().differences}
        assert set(found) == {"shop.public.t", "sums", "named"}
        assert found["shop.public.t"].keys == ((4,),)
        assert found["named"].missing == (("two", 5),)
        assert 0 in {row[0] for row in found["sums"].missing}

        outcome = ps.verify(repair=True)
        assert outcome.ok, str(outcome)
        assert outcome.repaired["shop.public.t"] == "corrected: 1 row put in, 1 taken out"
        assert outcome.repaired["named"] == "computed anew: 1 rows put in, 0 taken out"
        assert not ps.verify().differences
        db.execute("UPDATE t SET v = 0 WHERE id = 4; DELETE FROM t WHERE id = 5")
        assert not ps.verify().differences
        lines = ps.verify_history()
        assert [line.ok for line in lines] == [True, True, True, False, True]
        assert lines[2].repaired == outcome.repaired
        assert set(lines[3].differences) == {"shop.public.t", "sums", "named"}


def test_a_view_with_a_choice_among_rows_is_named_and_one_over_it_is_compared_with_that_choice(
    ps: penstock.Session, source_db: str
) -> None:
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, g int); INSERT INTO t SELECT i, 1 FROM generate_series(1, 9) i")
        ps.add_source("shop", source_db, tables=["t"])
        ps.create_stream_table("chosen", "SELECT id, g FROM t ORDER BY g LIMIT 2")
        ps.create_stream_table("over", "SELECT sum(id) AS s FROM chosen")
        ps.refresh_all()
        db.execute("UPDATE t SET g = 1 WHERE id < 5")  # nothing changes but where the rows lie
        outcome = ps.verify()
        assert outcome.ok, str(outcome)
        theirs = db.execute("SELECT sum(id) FROM (SELECT id FROM t ORDER BY g LIMIT 2) x").fetchone()
        assert theirs != (ps.table("over").collect()[0]["s"],)  # and so another choice is theirs
        assert set(outcome.rows) == {"shop.public.t", "over"}
        assert "ORDER BY calls equal (row_number)" in outcome.skipped["chosen"]
        assert "chosen was not compared" in str(outcome)
        put(ps, "over", [({"s": 1}, 1)])
        assert [one.relation for one in ps.verify("over").differences] == ["over"]


def test_a_table_of_which_too_much_differs_is_copied_again(
    ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_ENOUGH", 5)
    monkeypatch.setattr(verify, "_AT_ONCE", 1000)
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT i, i FROM generate_series(1, 3000) i"
        )
        ps.add_source("shop", source_db, tables=["t"])
        ps.create_stream_table("total", "SELECT sum(v) AS v FROM t")
        ps.refresh("total")
        put(ps, "t", [({"id": i, "v": v}, w) for i in range(1, 3001) for v, w in ((i, -1), (0, 1))])
        outcome = ps.verify(repair=True)
        assert outcome.ok, str(outcome)
        assert not outcome.differences[0].complete
        assert outcome.repaired["shop.public.t"] == "copied again"
        assert not ps.verify().differences
