"""The benchmark of views runs: its figures at such a scale say nothing, but both ways must agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import penstock
from penstock.bench.tpch.tables import TABLES
from penstock.bench.views import Bench, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.matrix
def test_both_ways_agree(spark: SparkSession, source_db: str, catalog_db: str, tmp_path: Path) -> None:
    with (
        psycopg.connect(source_db, autocommit=True) as source,
        penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark) as ps,
    ):
        load(source, tmp_path / "csv", 0.01)  # below, partsupp has keys twice
        ps.add_source("tpch", source_db, tables=["public.*"])
        bench = Bench(ps, source)
        bench.create(["q1", "q3", "q13"])
        for table in TABLES:
            ps.publish(table.name)
        ps.refresh_all()
        for change in (bench.orders, bench.updates):
            runs = list(bench.measure(lambda change=change: change(100)))  # type: ignore[misc]
            assert [one.query for one in runs] == ["q1", "q3", "q13"]
            assert all(one.full_rows > 0 for one in runs)
            for one in runs:
                differential, full = ps.table(one.query), ps.table(f"{one.query}_full")
                assert differential.exceptAll(full).count() == full.exceptAll(differential).count() == 0
