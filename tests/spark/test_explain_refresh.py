"""What `explain` says of the next refresh: what is left out, what is looked up, what a foreign key spares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

import penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_next_refresh(spark: SparkSession, source_db: str, catalog_db: str, tmp_path: Path) -> None:
    with (
        psycopg.connect(source_db, autocommit=True) as source,
        penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark) as ps,
    ):
        source.execute("CREATE TABLE o (id int PRIMARY KEY, c int, note text)")
        source.execute("CREATE TABLE l (id int PRIMARY KEY, o int NOT NULL REFERENCES o, n int)")
        source.execute("INSERT INTO o SELECT i, i % 3 FROM generate_series(1, 20) i")
        source.execute("INSERT INTO l SELECT i, 1 + i % 20, i FROM generate_series(1, 60) i")
        ps.add_source("shop", source_db, tables=["public.*"])
        ps.create_stream_table("v", "SELECT o.c, sum(l.n) AS n FROM o JOIN l ON l.o = o.id GROUP BY o.c", mode="AUTO")
        assert "refreshed now: FULL, first refresh" in ps.explain("v")
        ps.refresh("v")
        ps.catch_up()
        assert "NO_DATA" in ps.explain("v")

        source.execute("UPDATE o SET note = 'x' WHERE id < 5; INSERT INTO l VALUES (100, 7, 1)")
        ps.catch_up()
        told = ps.explain("v")
        assert "refreshed now: DIFFERENTIAL, 9 changed rows" in told
        assert "the last full one took" in told
        assert "left out: shop.public.o, of whose 8 changed rows none changed in a column that the view reads" in told
        assert "of shop.public.o: 1 rows looked up for 1 values of id" in told
        assert "Spark runs one task over rows in memory" in told

        ps.refresh("v")  # from here on the foreign key was seen before and after
        source.execute("INSERT INTO o VALUES (50, 1); INSERT INTO l VALUES (101, 50, 1), (102, 50, 1)")
        ps.catch_up()
        assert "rows from the changes, where a key says all are" in ps.explain("v")
        done = ps.refresh("v")
        assert done.action == "DIFFERENTIAL"
        assert not [one for one in done.reads if one.scanned]
        assert "the last differential refresh took" in ps.explain("v")
        assert ps.verify("shop").ok
