"""The benchmark of views runs: its figures at such a scale say nothing, but all ways must agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import penstock
from penstock.bench.views import report
from penstock.bench.views.changes import Changes
from penstock.bench.views.ground import auto, follow, load
from penstock.bench.views.measure import Measure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHOSEN = ["q1", "q3", "q13"]


@pytest.mark.matrix
def test_all_ways_agree(spark: SparkSession, source_db: str, catalog_db: str, tmp_path: Path) -> None:
    with (
        psycopg.connect(source_db, autocommit=True) as source,
        penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark) as ps,
    ):
        load(source, tmp_path / "csv", 0.01)
        follow(ps, source_db, CHOSEN)
        changes, measure = Changes(source), Measure(ps)
        for change in (changes.orders, changes.updates):
            change(100)
            ps.catch_up()
            runs = [measure.query(name) for name in CHOSEN]
            assert all(one.full.rows > one.differential.rows for one in runs)
            assert report.speed("all", runs, 0.0).ok
            for name in CHOSEN:
                stored, chosen = ps.table(name), ps.table(auto(name))
                assert stored.exceptAll(chosen).count() == chosen.exceptAll(stored).count() == 0
        assert ps.verify("tpch").ok
