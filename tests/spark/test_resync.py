"""A table that is copied again: views over it are computed anew and stay right, and its mirror is rebuilt."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import penstock
from penstock import failpoint
from penstock.errors import Busy
from penstock.failpoint import FailpointReached

VIEW = "SELECT g, count(*) AS n, sum(v) AS total FROM public.t GROUP BY g"


def rows(ps: penstock.Session, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in ps.table(name).collect())


def test_views_and_mirror_follow_a_table_that_is_copied_again(ps: penstock.Session, source_db: str) -> None:
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, g int, v bigint)")
        db.execute("INSERT INTO t SELECT i, i % 3, i FROM generate_series(1, 200) i")
        ps.add_source("shop", source_db, tables=["t"])
        ps.create_stream_table("sums", VIEW)
        ps.create_stream_table("big", "SELECT g, total FROM sums WHERE total > 0")
        ps.refresh("big")
        ps.publish("t")

        db.execute("UPDATE t SET v = v + 1 WHERE id < 50; DELETE FROM t WHERE id > 190")
        with failpoint.arm("copy.before_commit"), pytest.raises(FailpointReached):
            ps.resync("shop", "t")
        with pytest.raises(Busy, match="copied again"):
            ps.refresh("big")
        assert ps.table("sums").count() == 3  # what it was stays readable
        ps.resync("shop", "t")
        db.execute("UPDATE t SET g = 2 WHERE id = 1")
        ps.catch_up()
        done = ps.refresh_all()
        assert done["sums"].action == "REINITIALIZE"
        assert rows(ps, "sums") == sorted(db.execute(VIEW.replace("sum(v)", "sum(v)::bigint")).fetchall())
        db.execute("INSERT INTO t VALUES (999, 1, 5)")
        ps.catch_up()
        assert ps.refresh("big").action == "DIFFERENTIAL"
        assert rows(ps, "sums") == sorted(db.execute(VIEW).fetchall())
        published = ps.publish("t")
        assert published.rows == db.execute("SELECT count(*) FROM t").fetchone()[0]  # type: ignore[index]

        ps.drop_stream_table("big")
        ps.drop_stream_table("sums")
        db.execute("ALTER TABLE t DROP v, ADD w text DEFAULT 'w'; UPDATE t SET g = 9 WHERE id < 5")
        ps.resync("shop", "t")
        assert ps.publish("t").how == "created"
        mirror = ps.spark.read.format("delta").load(published.path)
        assert mirror.columns == ["id", "g", "w"]
        assert sorted(map(tuple, mirror.collect())) == sorted(db.execute("SELECT * FROM t").fetchall())
