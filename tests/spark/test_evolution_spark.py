"""Delta tables and views follow a table through its shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import penstock
from penstock import failpoint
from penstock.config import Settings
from penstock.cut import Frontier
from penstock.failpoint import FailpointReached
from penstock.lake import folding
from penstock.lake import publish as publishing
from penstock.lake import reader as reading

Table = tuple[list[str], "Counter[Any]"]


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b int NOT NULL, g int)")
        connection.execute("INSERT INTO t SELECT i, 'a' || i, i, i % 3 FROM generate_series(1, 40) i")
        yield connection


def run(db: psycopg.Connection[Any], script: str) -> None:
    for statement in script.split("; "):
        db.execute(statement)


def expected(db: psycopg.Connection[Any], query: str = "SELECT * FROM t") -> Table:
    cursor = db.execute(query)
    assert cursor.description is not None
    return [column.name for column in cursor.description], Counter(cursor.fetchall())


def rows(frame: Any) -> Table:
    return frame.columns, Counter(tuple(row.values()) for row in frame.toArrow().to_pylist())


def mirror(ps: penstock.Session, published: publishing.Published) -> Table:
    return rows(ps.spark.read.format("delta").load(published.path))


def by_other_engine(published: publishing.Published) -> Table:
    """By the query engine of delta-rs: names of columns are mapped there too."""
    found = pa.table(QueryBuilder().register("t", DeltaTable(published.path)).execute("SELECT * FROM t"))
    return found.column_names, Counter(tuple(row.values()) for row in found.to_pylist())


def looked_up(ps: penstock.Session, at: Frontier | None = None) -> Table:
    relation, position, _ = ps.engine.position("t", at)
    found = ps.engine.reader.rows_arrow(relation, position)
    return found.column_names, Counter(tuple(row.values()) for row in found.to_pylist())


def test_a_mirror_follows(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "OVERWRITE", folding.Cost(1e9, 0, 0))
    ps.add_source("shop", source_db, tables=["t"])
    ps.publish("t")
    old = ps.frontier(), expected(db)

    run(db, "ALTER TABLE t ADD c int; UPDATE t SET c = 1 WHERE id = 1")
    ps.catch_up()
    run(db, "ALTER TABLE t RENAME b TO bb; ALTER TABLE t DROP a; UPDATE t SET bb = 0, c = 2 WHERE id IN (1, 3)")
    run(db, "DELETE FROM t WHERE id = 2")
    ps.catch_up()
    assert rows(ps.table("t")) == looked_up(ps) == expected(db)
    with monkeypatch.context() as patched:
        patched.setattr(reading, "SMALL", 0)  # segments as Spark scans them
        assert rows(ps.table("t")) == expected(db)
    with failpoint.arm("publish.altered"), pytest.raises(FailpointReached):
        ps.publish("t")
    assert rows(ps.table("t")) == looked_up(ps) == expected(db)
    published = ps.publish("t")
    assert (published.how, mirror(ps, published)) == ("merged", expected(db))
    assert looked_up(ps) == expected(db)

    run(db, "UPDATE t SET bb = bb + 1 WHERE id > 35; DELETE FROM t WHERE id = 1")  # found in files under older names
    run(db, "ALTER TABLE t RENAME c TO cc")
    ps.catch_up()
    assert rows(ps.table("t")) == looked_up(ps) == expected(db)
    assert ps.publish("t").how == "merged"
    run(db, "ALTER TABLE t RENAME cc TO c")
    ps.catch_up()
    published = ps.publish("t")
    assert (published.how, mirror(ps, published)) == ("altered", expected(db))
    assert by_other_engine(published) == expected(db)

    run(db, "ALTER TABLE t ADD d timestamp DEFAULT '2001-02-03 04:05:06'; UPDATE t SET bb = 5 WHERE id = 3")
    ps.catch_up()
    monkeypatch.setattr(publishing, "SMALL", -1)  # written anew as a large one is
    published = ps.publish("t")
    assert (published.how, mirror(ps, published)) == ("overwritten", expected(db))
    assert rows(ps.table("t", at=old[0])) == looked_up(ps, old[0]) == old[1]
    assert ps.verify("shop").ok


def test_a_mirror_without_deletion_vectors_is_written_anew(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.engine.settings = Settings(compat=True)
    ps.add_source("shop", source_db, tables=["t"])
    ps.publish("t")
    run(db, "ALTER TABLE t RENAME b TO bb; UPDATE t SET bb = 0 WHERE id = 1")
    ps.catch_up()
    published = ps.publish("t")
    assert (published.how, mirror(ps, published)) == ("overwritten", expected(db))
    log = "".join(file.read_text() for file in Path(published.path, "_delta_log").glob("*.json"))
    assert "columnMapping" not in log


def test_views_go_on_while_their_columns_are_the_same(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    sums = "SELECT g, count(*) AS n, sum(b) AS total FROM t GROUP BY g"
    ps.create_stream_table("sums", sums.replace("FROM t", "FROM public.t"))
    ps.create_stream_table("everything", "SELECT * FROM public.t WHERE id > 3")
    ps.create_stream_table("over", "SELECT id, a FROM everything")
    ps.refresh_all()

    run(db, "ALTER TABLE t ADD c int DEFAULT 7; UPDATE t SET b = -b, a = 'z', c = 1 WHERE id < 8")
    done = ps.refresh_all(ps.catch_up())
    assert {one.action for one in done.values()} == {"DIFFERENTIAL"}
    assert rows(ps.table("sums")) == expected(db, sums)
    assert rows(ps.table("everything")) == expected(db, "SELECT id, a, b, g FROM t WHERE id > 3")

    before = rows(ps.table("everything")), rows(ps.table("over"))
    run(db, "ALTER TABLE t DROP a; UPDATE t SET g = 2 WHERE id IN (9, 10); DELETE FROM t WHERE id = 11")
    done = ps.refresh_all(ps.catch_up())
    assert done["sums"].action == "DIFFERENTIAL"
    assert rows(ps.table("sums")) == expected(db, sums)
    assert {name: one.action for name, one in done.items() if name != "sums"} == {"everything": "SKIP", "over": "SKIP"}
    assert done["everything"].reason == "column a of shop.public.t was dropped"
    assert (rows(ps.table("everything")), rows(ps.table("over"))) == before
    status = {one.name: one.status for one in ps.status().stream_tables}
    assert status == {"sums": "ACTIVE", "everything": "SUSPENDED", "over": "SUSPENDED"}

    run(db, "ALTER TABLE t RENAME b TO x; UPDATE t SET g = 0 WHERE id = 9")
    done = ps.refresh_all(ps.catch_up())
    assert (done["sums"].action, done["sums"].reason) == (
        "REINITIALIZE", "column b of shop.public.t is now called x",
    )  # fmt: skip
    assert rows(ps.table("sums")) == expected(db, sums.replace("sum(b)", "sum(x)"))
    assert ps.refresh_all()["everything"].action == "SKIP", "a column of it is gone"
    run(db, "UPDATE t SET x = x + 1 WHERE id < 5")
    assert ps.refresh_all(ps.catch_up())["sums"].action == "DIFFERENTIAL"
    assert rows(ps.table("sums")) == expected(db, sums.replace("sum(b)", "sum(x)"))

    run(db, "ALTER TABLE t RENAME x TO y; ALTER TABLE t ADD x int; UPDATE t SET x = 1")
    done = ps.refresh_all(ps.catch_up())
    assert done["sums"].action == "SKIP", "the column of that name is another one, which may be NULL"


def test_a_view_over_a_table_that_was_copied_again_in_another_shape(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    ps.create_stream_table("names", "SELECT id, a FROM public.t")
    ps.create_stream_table("numbers", "SELECT id, b FROM public.t")
    ps.refresh_all()
    run(db, "ALTER TABLE t ALTER b TYPE bigint USING b * 10; UPDATE t SET a = 'new' WHERE id = 1")
    done = ps.refresh_all(ps.catch_up())
    assert done["names"].action == "REINITIALIZE"
    assert rows(ps.table("names")) == expected(db, "SELECT id, a FROM t")
    assert done["numbers"].reason == "column b of shop.public.t is bigint held as bigint, was integer held as int"
