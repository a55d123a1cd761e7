"""A server without hash functions (PostgreSQL 10): all rows are fetched and compared. Newer ones are asked likewise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest
from servers import NO_TRUNCATE
from wrong_rows import put

import penstock
from penstock.refresh import verify
from penstock.refresh.row_hash import OLDEST


def test_rows_are_fetched_and_compared(ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "OLDEST", max(OLDEST, 1_000_000))
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (id int PRIMARY KEY, v numeric(10,2), f float8, at timestamptz, l int[], u uuid)")
        values = "i, i, i / 7.0, now(), ARRAY[i, NULL], md5(i::text)::uuid"
        db.execute(f"INSERT INTO t SELECT {values} FROM generate_series(1, 300) i")
        db.execute("CREATE TABLE bag (x int, y text); ALTER TABLE bag REPLICA IDENTITY FULL")
        db.execute("INSERT INTO bag SELECT i % 3, NULL FROM generate_series(1, 30) i")
        ps.add_source("shop", source_db, tables=["public.*"], **NO_TRUNCATE)
        db.execute("UPDATE t SET v = -v WHERE id % 7 = 0; DELETE FROM t WHERE id < 10; DELETE FROM bag WHERE x = 0")
        outcome = ps.verify()
        assert outcome.ok, str(outcome)
        assert outcome.rows == {"shop.public.t": 291, "shop.public.bag": 20}

        wrong: list[tuple[dict[str, Any], int]] = [({"x": 1, "y": None}, 1)]
        put(ps, "bag", wrong)
        relation, position, _ = ps.engine.position("t")
        there = next(row for row in ps.engine.reader.rows_arrow(relation, position).to_pylist() if row["id"] == 50)
        put(ps, "t", [(there, -1), (there | {"v": Decimal("50.01")}, 1)])
        found = {one.relation: one for one in ps.verify().differences}
        assert found["shop.public.t"].keys == ((50,),)
        assert found["shop.public.bag"].extra == ((1, None),)
        assert ps.verify(repair=True).ok
        assert not ps.verify().differences
