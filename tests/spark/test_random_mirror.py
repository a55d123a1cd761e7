"""Random lives of two sources: the mirror equals them at every frontier that is looked at.

`PENSTOCK_LIVES` is how many, 8 by default; `make soak` runs 500 with a seed that it prints.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from psycopg import sql
from pyspark.sql import SparkSession
from servers import EmbeddedPostgres
from spark.random_mirror import Life, Step, lives

import penstock
from penstock.capture import ingest
from penstock.lake import folding, publish

LIVES = int(os.environ.get("PENSTOCK_LIVES", "8"))
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def databases(source_server: EmbeddedPostgres) -> Iterator[dict[str, str]]:
    names = {name: f"random_{name}" for name in ("a", "b")}
    with psycopg.connect(source_server.dsn, autocommit=True) as admin:
        for name in names.values():
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield {name: source_server.dsn_of(database) for name, database in names.items()}
        for name in names.values():
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.mark.soak
@pytest.mark.timeout(0 if LIVES > 8 else 900)
@settings(
    max_examples=LIVES,
    deadline=None,
    derandomize="PENSTOCK_LIVES" not in os.environ,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(life=lives)
def test_the_mirror_equals_its_sources_whatever_happens(
    life: list[Step],
    databases: dict[str, str],
    tmp_path: Path,
    catalog_db: str,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = next(_numbers)
    if number % 2:
        monkeypatch.setattr(folding, "OVERWRITE", folding.Cost(1e9, 0, 0))  # by MERGE, else mostly written anew
    monkeypatch.setattr(publish, "SMALL", -1 if number % 4 == 2 else 50_000)  # by Spark, or put together in memory
    monkeypatch.setattr(ingest, "AT_ONCE_ROWS", (-1, 5, 10_000)[number % 3])  # settled later, some of it, or at once

    def opened() -> Any:
        return penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark)

    Life(opened, databases, f"life{number}").live(life)
