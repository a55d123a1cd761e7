"""Relations that come, go and come again under one name, several sources, and reading across them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.catalog import relations
from penstock.errors import InvalidQuery, NotRetained
from penstock.lake import folding
from penstock.lake.base_files import BaseFiles
from penstock.lake.net_changes import NetChanges
from penstock.refresh import define


def rows_of(ps: penstock.Session, name: str) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in ps.table(name).toArrow().to_pylist())


@pytest.fixture
def source(source_db: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(source_db, autocommit=True)
    connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE w (id int PRIMARY KEY)")
    connection.execute(
        "INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 30) i; INSERT INTO w VALUES (1), (2), (3)"
    )
    return connection


def test_a_name_used_again_inherits_nothing(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when a crash kept the old folders; nor from what this process remembers of them."""
    ps.add_source("shop", source_db, tables=["t", "w"])
    ps.create_stream_table("v", "SELECT v, count(*) AS n FROM t GROUP BY v")
    ps.refresh("v")
    ps.publish("v")
    monkeypatch.setattr(define, "shutil", _Nothing())
    ps.drop_stream_table("v")
    assert (ps.home.root / "views" / "v" / "_delta_log").exists()
    ps.create_stream_table("v", "SELECT v, count(*) AS n FROM t WHERE id > 10 GROUP BY v")
    ps.refresh("v")
    expected = Counter(source.execute("SELECT v, count(*) FROM t WHERE id > 10 GROUP BY v").fetchall())
    path = ps.publish("v").path
    assert rows_of(ps, "v") == expected
    assert ps.spark.read.format("delta").load(path).count() == len(expected)
    ps.drop_stream_table("v")

    ps.publish("t")
    ps.remove_source("shop")
    source.execute("INSERT INTO t VALUES (100, 0)")
    ps.add_source("shop", source_db, tables=["t", "w"])
    ps.publish("t")
    source.execute("UPDATE t SET v = v + 1")
    ps.catch_up()
    assert rows_of(ps, "t") == Counter(source.execute("SELECT * FROM t").fetchall())


class _Nothing:
    """A crash before the folders were removed."""

    def rmtree(self, *_: object, **__: object) -> None: ...


def test_rows_hidden_by_deletion_vectors_do_not_count_even_if_no_column_is_used(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "OVERWRITE", folding.Cost(1e9, 0, 0))
    ps.add_source("shop", source_db, tables=["t", "w"])
    ps.create_stream_table("pairs", "SELECT t.id FROM t CROSS JOIN w", mode="DIFFERENTIAL")
    ps.create_stream_table("total", "SELECT count(*) AS n FROM w", mode="DIFFERENTIAL")
    ps.publish("w")
    ps.refresh_all()
    source.execute("DELETE FROM w WHERE id = 2")
    ps.catch_up()
    ps.refresh_all()
    assert ps.publish("w").how == "merged"
    relation = relations.find(ps.catalog, "w")
    base = ps.engine.reader.base(relation)
    assert base is not None
    assert BaseFiles(ps.home.base(relation.folder), base.delta_version).hidden_rows == 1
    source.execute("INSERT INTO t VALUES (1000, 0)")
    assert ps.verify("shop").ok


def test_two_sources_and_a_view_with_a_table_s_name(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    ps.create_stream_table("t", "SELECT id FROM shop.public.t WHERE v = 1")
    ps.create_stream_table("small", "SELECT id FROM public.t WHERE v = 2")
    ps.add_source("crm", source_db, tables=["t", "w"])
    ps.create_stream_table("w_twice", "SELECT id FROM w UNION ALL SELECT id FROM w")
    source.execute("INSERT INTO t VALUES (50, 1), (51, 2); DELETE FROM w WHERE id = 1")
    for name in ("shop", "crm", None):
        outcome = ps.verify(name)
        assert outcome.ok, str(outcome)
    assert set(outcome.rows) == {"shop.public.t", "t", "small", "crm.public.t", "crm.public.w", "w_twice"}


def test_verify_finds_what_differs(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    ps.create_stream_table("v", "SELECT v, count(*) AS n FROM t GROUP BY v")
    assert ps.verify().ok
    segment = ps.catalog.one("SELECT path FROM segments WHERE relation_id = 1 ORDER BY id LIMIT 1")
    assert segment is not None
    path = ps.home.path(segment["path"])
    rows = pq.read_table(path)
    pq.write_table(rows.slice(1), path)  # a row lost on disk
    ps.engine.reader._net = NetChanges()
    outcome = ps.verify("shop.public.t")
    assert not outcome.ok
    assert [(d.relation, d.missing, d.extra) for d in outcome.differences] == [("shop.public.t", ((1, 1),), ())]


def test_a_query_over_views_is_not_torn(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    ps.create_stream_table("a", "SELECT count(*) AS n FROM t")
    ps.create_stream_table("b", "SELECT count(*) AS n FROM t")
    ps.refresh("a")
    both = "SELECT a.n AS x, b.n AS y, (SELECT count(*) FROM t) AS z FROM a CROSS JOIN b"
    source.execute("INSERT INTO t VALUES (99, 0)")
    ps.catch_up()
    ps.refresh("b")
    with pytest.raises(NotRetained, match="never at one frontier together"):
        ps.execute(both)
    ps.refresh("a")
    source.execute("INSERT INTO t VALUES (98, 0)")
    ps.catch_up()
    ps.refresh("a")
    assert [tuple(row) for row in ps.execute(both).collect()] == [(31, 31, 31)]
    with pytest.raises(InvalidQuery, match="nonsense"):
        ps.execute("SELECT nonsense FROM t")


def test_run_keeps_due_views_fresh_and_leaves_the_others_alone(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    ps.create_stream_table("due", "SELECT count(*) AS n FROM t", schedule="1s")
    ps.create_stream_table("manual", "SELECT count(*) AS n FROM t")
    problems: list[BaseException] = []

    def run() -> None:
        try:
            ps.run()
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        source.execute("INSERT INTO t VALUES (200, 0)")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not problems:
            if ps.history("due") and [row.n for row in ps.table("due").collect()] == [31]:
                break
            time.sleep(0.2)
    finally:
        ps.stop()
        thread.join(30)
    assert problems == []
    assert [row.n for row in ps.table("due").collect()] == [31]
    assert ps.history("manual") == []
