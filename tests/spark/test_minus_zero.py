"""0.0 and -0.0 are one key to PostgreSQL and to Spark, and two rows of the changelog: the table has the right one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers import NO_TRUNCATE

import penstock
from penstock.lake import folding, publish
from penstock.lake.folding import Cost
from penstock.lake.reader import Reader

STEPS = [
    ["UPDATE t SET k = '-0' WHERE k = 0"],
    ["UPDATE t SET v = 'still minus' WHERE k = 0"],
    ["DELETE FROM t WHERE k = 0", "INSERT INTO t VALUES (0, 'plus', '-0')"],
    ["UPDATE t SET w = 0 WHERE k = 0"],
    ["UPDATE t SET k = '-0', v = 'a', w = '-0' WHERE k = 0", "UPDATE t SET k = 0", "UPDATE t SET k = '-0', v = 'b'"],
    ["DELETE FROM t WHERE k = 0"],
]


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        yield connection


def spelled(rows: list[tuple[Any, ...]]) -> Counter[str]:
    """In text, since -0.0 == 0.0."""
    return Counter(map(repr, rows))


@pytest.mark.parametrize("summed_by_spark", [False, True])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_merge_has_every_bit(
    ps: penstock.Session,
    db: psycopg.Connection[Any],
    source_db: str,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
    keyed: bool,
    summed_by_spark: bool,
) -> None:
    """Also the changes after it find their rows there."""
    db.execute(f"CREATE TABLE t (k float8 {'PRIMARY KEY' if keyed else ''}, v text, w float4)")
    if not keyed:
        db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    db.execute("INSERT INTO t VALUES (0, 'zero', 0)")
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    ps.publish("t")
    for module in (folding, publish):
        monkeypatch.setattr(module, "FEW_ROWS", -1)
    monkeypatch.setattr(folding, "MERGE", Cost(0, 0, 0))
    if summed_by_spark:
        monkeypatch.setattr(Reader, "fits", lambda *_: False)
    for step in STEPS:
        with db.transaction():
            for statement in step:
                db.execute(statement)
        ps.catch_up()
        ps.publish("t")
        truth = spelled(db.execute("SELECT k, v, w FROM t").fetchall())
        relation, position, _ = ps.engine.position("t")
        in_memory = ps.engine.reader.rows_arrow(relation, position).to_pylist()
        assert spelled([tuple(row.values()) for row in in_memory]) == truth
        assert spelled([tuple(row) for row in ps.engine.reader.rows(relation, position).collect()]) == truth
        assert ps.verify("t").ok
