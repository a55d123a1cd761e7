"""A source's tables in the lake equal those in PostgreSQL: as they grow, at past cuts, published or not."""

from __future__ import annotations

import random
from collections import Counter
from functools import reduce
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame

import penstock
from penstock.cut import Frontier
from penstock.lake import folding

TABLES = """
    CREATE TABLE item (id int, part text DEFAULT 'a', name text, price numeric(10,2), at timestamptz, big text,
                       PRIMARY KEY (id, part));
    CREATE TABLE bag (x int, y text);
    ALTER TABLE bag REPLICA IDENTITY FULL;
    ALTER TABLE item ALTER big SET STORAGE EXTERNAL;
"""


def rows_in(dsn: str, table: str) -> Counter[Any]:
    with psycopg.connect(dsn) as connection:
        return Counter(connection.execute(f"SELECT * FROM {table}").fetchall())


def rows_of(ps: penstock.Session, name: str, at: Frontier | None = None) -> Counter[Any]:
    frame = ps.table(name, at=at)
    return Counter(tuple(row.values()) for row in frame.toArrow().to_pylist())


def rows_at(ps: penstock.Session, name: str, frontiers: list[Frontier]) -> list[Counter[Any]]:
    """By one query of Spark."""
    frames = [ps.table(name, at=at).selectExpr(f"{n} AS n", "*") for n, at in enumerate(frontiers)]
    rows = [tuple(row.values()) for row in reduce(DataFrame.unionAll, frames).toArrow().to_pylist()]
    return [Counter(row[1:] for row in rows if row[0] == n) for n in range(len(frontiers))]


class Workload:
    """Random transactions over two tables; half of them roll back some statements."""

    def __init__(self, dsn: str, seed: int) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.random = random.Random(seed)

    def transaction(self) -> None:
        with self.connection.transaction():
            for _ in range(self.random.randint(1, 6)):
                self.statement()

    def statement(self) -> None:
        r = self.random
        key, text = r.randint(1, 30), r.choice([None, "", "é\\n'x'", "long " * 600])
        run = self.connection.execute
        match r.randint(0, 9):
            case 0 | 1:
                run("INSERT INTO item VALUES (%s, %s, %s, %s, now(), %s) "
                    "ON CONFLICT (id, part) DO UPDATE SET name = 'again'",
                    (key, str(key % 3), text, r.randint(0, 10**6) / 100,
                     "t" * 5000 if r.random() < 0.5 else None))  # fmt: skip
            case 2:
                run("UPDATE item SET price = price + 1, name = name WHERE id %% 3 = %s", (key % 3,))
            case 3:
                run("UPDATE item SET id = id + 1000 WHERE id = %s AND NOT EXISTS (SELECT FROM item WHERE id = %s)",
                    (key, key + 1000))  # fmt: skip
            case 4:
                run("DELETE FROM item WHERE id = %s", (key,))
            case 5:
                run("INSERT INTO item SELECT %s, p FROM unnest('{a,b,c}'::text[]) p ON CONFLICT DO NOTHING", (key % 5,))
            case 6:
                run("UPDATE item SET name = 'moved', part = part || 'x' WHERE id = %s", (key % 5,))
            case 7:
                run("DELETE FROM item WHERE id = %s AND part <> 'a'", (key % 5,))
            case 8:
                run("INSERT INTO bag VALUES (%s, %s), (%s, %s)", (key % 4, "d", key % 4, "d"))
            case 9:
                run("DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE x = %s LIMIT 1)", (key % 4,))


@pytest.mark.parametrize(
    ("identity", "dearest"), [("DEFAULT", "OVERWRITE"), pytest.param("FULL", "MERGE", marks=pytest.mark.matrix)]
)
def test_tables_equal_the_source_at_every_cut(
    ps: penstock.Session, source_db: str, identity: str, dearest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published by MERGE in one case, by writing the tables anew in the other."""
    monkeypatch.setattr(folding, dearest, folding.Cost(1e9, 0, 0))
    workload = Workload(source_db, seed=7)
    workload.connection.execute(TABLES)
    workload.connection.execute(f"ALTER TABLE item REPLICA IDENTITY {identity}")
    for _ in range(10):
        workload.transaction()
    ps.add_source("shop", source_db, tables=["public.*"])
    names = ["item", "bag"]
    seen: list[tuple[Frontier, dict[str, Counter[Any]]]] = []
    for step in range(3):
        for _ in range(10):
            workload.transaction()
        if step == 1:
            workload.connection.execute("TRUNCATE item, bag")
            workload.transaction()
        frontier = ps.catch_up()
        seen.append((frontier, {name: rows_in(source_db, name) for name in names}))
        if step == 0:
            for name in names:
                ps.publish(name)
    for name in names:
        at_each = rows_at(ps, name, [frontier for frontier, _ in seen])
        for number, (frontier, expected) in enumerate(seen):
            assert at_each[number] == expected[name], (frontier, name)
    how = set()
    for name in names:
        published = ps.publish(name)
        how.add(published.how)
        delta = ps.spark.read.format("delta").load(published.path).toArrow().to_pylist()
        assert Counter(tuple(row.values()) for row in delta) == seen[-1][1][name]
        assert published.rows == sum(seen[-1][1][name].values())
        assert ps.publish(name).how == "unchanged"
    assert ("merged" if dearest == "OVERWRITE" else "overwritten") in how


def test_changes_between_two_frontiers_turn_one_state_into_the_other(ps: penstock.Session, source_db: str) -> None:
    workload = Workload(source_db, seed=3)
    workload.connection.execute(TABLES)
    workload.transaction()
    ps.add_source("shop", source_db, tables=["public.*"])
    before = ps.catch_up()
    old = {name: rows_of(ps, name) for name in ("item", "bag")}
    for _ in range(20):
        workload.transaction()
    ps.catch_up()
    for name, rows in old.items():
        total = Counter(rows)
        for row in ps.changes(name, since=before).toArrow().to_pylist():
            weight = row.pop("_weight")
            total[tuple(row.values())] += weight
        assert +total == rows_in(source_db, name)


def test_a_table_without_rows_but_with_times_and_lists_is_read_and_published(
    ps: penstock.Session, source_db: str
) -> None:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamptz, list int[])")
        connection.execute("INSERT INTO t VALUES (1, now(), '{1}')")
        ps.add_source("shop", source_db, tables=["t"])
        connection.execute("TRUNCATE t")
    ps.catch_up()
    assert ps.table("t").collect() == []
    assert ps.publish("t").rows == 0
