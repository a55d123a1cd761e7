"""A base with more rows than are worth looking through here is asked through Spark, and gives the same."""

from __future__ import annotations

import psycopg
import pytest

import penstock
from penstock.lake import reader


def test_old_images_from_a_large_base(ps: penstock.Session, source_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(source_db, autocommit=True) as db:
        db.execute("CREATE TABLE t (a int, b text, v int, PRIMARY KEY (a, b))")
        db.execute("INSERT INTO t SELECT i % 50, 'k' || i, i FROM generate_series(1, 500) i")
        ps.add_source("shop", source_db, tables=["t"])
        ps.publish("t")
        monkeypatch.setattr(reader, "SCANNED", 0)
        monkeypatch.setattr(reader, "SMALL", 0)  # its rows are not kept in memory
        asked: list[int] = []
        real = reader.Reader._lookup_on_spark

        def noted(self: reader.Reader, relation: object, base: object, keys: reader.pa.Table) -> reader.pa.Table:
            asked.append(keys.num_rows)
            return real(self, relation, base, keys)  # type: ignore[arg-type]

        monkeypatch.setattr(reader.Reader, "_lookup_on_spark", noted)
        db.execute("UPDATE t SET v = v + 1 WHERE a BETWEEN 10 AND 20")
        db.execute("DELETE FROM t WHERE b LIKE 'k1%'")
        db.execute("UPDATE t SET b = b || '!' WHERE a = 30")
        ps.catch_up()
        assert sum(asked) > 100
        expected = sorted(db.execute("SELECT * FROM t").fetchall())
        assert sorted(tuple(row) for row in ps.table("t").collect()) == expected
