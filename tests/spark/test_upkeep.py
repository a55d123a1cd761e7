"""The changelog's upkeep under stream tables: their past reads as before, and what was handed out stays readable."""

from __future__ import annotations

from pathlib import Path

import psycopg
from pyspark.sql import SparkSession

import penstock
from penstock.catalog import relations
from penstock.cut import Frontier
from penstock.lake import reader
from penstock.relation.segment import PENDING

QUERY = "SELECT g, count(*) AS n, sum(v) AS v FROM t GROUP BY g"


def rows(frame: reader.DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_stream_tables_before_and_after(tmp_path: Path, catalog_db: str, source_db: str, spark: SparkSession) -> None:
    where = {"home": tmp_path / "home", "catalog": catalog_db, "spark": spark}
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, g int, v int)")
        db.execute("INSERT INTO t SELECT i, i % 3, i FROM generate_series(1, 30) i")
        with penstock.connect(**where) as ps:
            ps.add_source("shop", source_db, tables=["t"])
            ps.create_stream_table("sums", QUERY, mode="DIFFERENTIAL")
            past = {}
            for step in range(4):
                db.execute("UPDATE t SET v = v + 1, g = (g + 1) %% 4 WHERE id %% 5 = %s", (step,))
                ps.catch_up()
                frontier = ps.refresh("sums").frontier
                past[frontier] = rows(ps.table("sums"))
            frame = ps.table("sums", at=next(iter(past)))
            done = ps.engine.maintain(least=2)
            assert done.into >= 3, "the table, the stream table and what its operator remembers"
            view = relations.find(ps.catalog, "sums")
            (segment,) = ps.engine.reader.segments(view, -1, PENDING)
            assert segment.low < segment.high
            for frontier, expected in past.items():
                assert rows(ps.table("sums", at=frontier)) == expected
            _with_spark_alone(ps, past)
            assert rows(frame) == next(iter(past.values()))
            db.execute("DELETE FROM t WHERE id < 4")
            ps.catch_up()
            assert ps.refresh("sums").action == "DIFFERENTIAL"
            ps.publish("t")
            ps.publish("sums")
        # What is in the Delta tables is not needed any more, and at the limit not even by what had yet to read it.
        with penstock.connect(**where, config={"changelog_limit": 1, "changelog_grace": 0}) as ps:
            db.execute("DELETE FROM t WHERE id < 8")
            ps.catch_up()
            ps.publish("t")
            assert ps.maintain().released.stream_tables == ("sums",)
            again = ps.refresh("sums")
            assert (again.action, again.reason) == (
                "REINITIALIZE",
                "changes of shop.public.t were dropped at the changelog's limit",
            )
            assert rows(ps.table("sums")) == sorted(db.execute(QUERY).fetchall())


def _with_spark_alone(ps: penstock.Session, past: dict[Frontier, list[tuple[object, ...]]]) -> None:
    """As segments of many rows are read."""
    small, reader.SMALL = reader.SMALL, -1
    try:
        for frontier, expected in past.items():
            assert rows(ps.table("sums", at=frontier)) == expected
    finally:
        reader.SMALL = small
