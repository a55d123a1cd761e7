"""Delta tables for others: at one frontier, stamped, kept in shape, and readable by engines other than Spark."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import penstock
from penstock.cli.main import app
from penstock.config import Settings
from penstock.cut import Frontier
from penstock.errors import ConfigError, NotRetained, PublishError
from penstock.failpoint import FailpointReached, arm
from penstock.lake import delta_writes, folding, gathered, optimize, publish, reader
from penstock.lsn import Lsn
from penstock.refresh import publisher as publishers
from penstock.refresh.publisher import Publisher
from penstock.refresh.publishing import write_manifest

SCHEMA = """
    CREATE TABLE a (id int PRIMARY KEY, v text);
    CREATE TABLE b (id bigint PRIMARY KEY, at timestamptz DEFAULT now());
    INSERT INTO a SELECT i, 'v' || i FROM generate_series(1, 50) i;
    INSERT INTO b SELECT i FROM generate_series(1, 5) i;
"""


@pytest.fixture
def source(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute(SCHEMA.encode())
        yield connection


@pytest.fixture
def shop(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> penstock.Session:
    ps.add_source("shop", source_db, tables=["public.*"])
    return ps


@pytest.fixture
def merging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "OVERWRITE", folding.Cost(1e9, 0, 0))


def in_postgres(source: psycopg.Connection[Any], table: str) -> Counter[Any]:
    return Counter(source.execute(f"SELECT * FROM {table}".encode()).fetchall())


def by_other_engine(folder: Path | str, version: int | None = None) -> Counter[Any]:
    """Read by the query engine of delta-rs, which knows nothing of Spark."""
    table = DeltaTable(str(folder), version=version)
    rows = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def rows_of(frame: Any) -> Counter[Any]:
    return Counter(tuple(row.values()) for row in frame.toArrow().to_pylist())


def test_the_manifest_names_versions_that_belong_together(
    shop: penstock.Session, source: psycopg.Connection[Any], merging: None
) -> None:
    shop.create_stream_table("total", "SELECT count(*) AS n FROM a", mode="DIFFERENTIAL", schedule="1s")
    shop.refresh_all()
    shop.publish_all()
    source.execute("UPDATE a SET v = 'new' WHERE id < 20")
    source.execute("DELETE FROM a WHERE id = 30")
    shop.catch_up()
    shop.refresh_all()
    done = {one.name: one for one in shop.publish_all()}
    assert done["shop.public.a"].how == "merged"
    expected = {"shop.public.a": in_postgres(source, "a"), "shop.public.b": in_postgres(source, "b")}
    source.execute("INSERT INTO a VALUES (1000)")
    shop.catch_up()
    by_itself = shop.publish("a")  # past the frontier of the manifest
    manifest = json.loads((shop.home.root / "manifest.json").read_text())
    assert manifest["apart"] == {}
    assert manifest["tables"]["shop.public.a"]["version"] < by_itself.version
    for name, rows in {**expected, "total": Counter({(49,): 1})}.items():
        entry = manifest["tables"][name]
        assert by_other_engine(shop.home.root / entry["path"], entry["version"]) == rows
    for entry in DeltaTable(done["shop.public.a"].path).history():
        stamp = json.loads(entry["userMetadata"])
        assert stamp["source"] == "shop"
        assert Lsn.parse(stamp["lsn"]) == stamp["position"]
    write_manifest(shop.engine, Frontier.parse(json.dumps(manifest["frontier"])))
    manifest = json.loads((shop.home.root / "manifest.json").read_text())
    assert set(manifest["tables"]) == {"shop.public.b", "total"}
    assert Frontier.parse(json.dumps(manifest["apart"]["shop.public.a"]["frontier"])) == by_itself.frontier


def test_optimize_and_vacuum_are_stamped_and_survive_a_crash(
    shop: penstock.Session, source: psycopg.Connection[Any], merging: None
) -> None:
    path = shop.publish("a").path
    pinned = shop.frontier()
    shop.pin(pinned)
    at_pin = in_postgres(source, "a")
    source.execute("UPDATE a SET v = v || 'x' WHERE id % 3 = 0")
    shop.catch_up()
    assert shop.publish("a").how == "merged"
    with arm("optimize.delta_committed"), pytest.raises(FailpointReached):
        shop.optimize("a")
    assert shop.optimize("a") is None  # the new version is adopted, and there is nothing more to do
    assert rows_of(shop.table("a")) == by_other_engine(path) == in_postgres(source, "a")
    with shop.catalog.connection.transaction():  # as if all of it had happened ten days ago
        shop.catalog.connection.execute("UPDATE rounds SET committed_at = committed_at - interval '10 days'")
    assert shop.vacuum("a") > timedelta(days=10)  # the pin needs the version of then
    assert by_other_engine(path, 0) == rows_of(shop.table("a", at=pinned)) == at_pin
    history = DeltaTable(path).history()
    assert {"OPTIMIZE", "VACUUM END"} <= {entry["operation"] for entry in history}
    assert all(json.loads(entry["userMetadata"])["owner"] for entry in history)
    shop.release(shop.pins()[0].id)
    shop.engine.settings = Settings(keep_versions="1s")
    time.sleep(1.1)
    assert shop.vacuum("a") == timedelta(seconds=1)
    with pytest.raises(Exception, match=r"(?i)no such file|not found"):
        by_other_engine(path, 0)
    assert rows_of(shop.table("a")) == by_other_engine(path) == in_postgres(source, "a")


def test_a_table_in_disorder_is_put_in_key_order_once(
    shop: penstock.Session,
    source: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(optimize, "ROWS_PER_FILE", 40)
    monkeypatch.setattr(optimize, "_LEAST_BYTES", 500)
    path = shop.publish("a").path
    for step in range(4):  # each over the whole range of keys
        source.execute("INSERT INTO a SELECT 100 + i * 4 + %s, md5(i::text) FROM generate_series(0, 49) i", (step,))
        shop.catch_up()
        assert shop.publish("a").how == "appended"
    assert shop.optimize("a") == "200 of 250 rows in files of overlapping key ranges"
    files = pa.table(DeltaTable(path).get_add_actions(flatten=True)).to_pylist()
    assert len(files) > 3
    assert sum(file["max.id"] - file["min.id"] for file in files) < 1.5 * 300
    assert DeltaTable(path).history(1)[0]["operation"] == "OPTIMIZE"
    assert json.loads(DeltaTable(path).history(1)[0]["userMetadata"])["penstock"] == "shop.public.a"
    assert by_other_engine(path) == rows_of(shop.table("a")) == in_postgres(source, "a")
    assert "overlapping" not in str(shop.optimize("a"))

    def fails(*_: Any, **__: Any) -> None:
        raise PySparkException("no room")

    monkeypatch.setattr(optimize, "optimize", fails)
    source.execute("INSERT INTO a VALUES (5000)")
    shop.catch_up()
    shop.set_publishing("b", "manual")
    Publisher(shop.engine, threading.Event()).step()  # does not end a run
    assert "could not be put in order: no room" in caplog.text
    assert shop.publish_history("a")[0].how == "appended"


def test_compat_tables_have_nothing_that_old_readers_refuse(
    tmp_path: Path, catalog_db: str, spark: SparkSession, source: psycopg.Connection[Any], source_db: str, merging: None
) -> None:
    settings = {"compat": True}
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark, config=settings) as ps:
        ps.add_source("shop", source_db, tables=["public.a"])
        path = ps.publish("a").path
        source.execute("UPDATE a SET v = 'new' WHERE id = 3")
        ps.catch_up()
        assert ps.publish("a").how == "merged"
        source.execute("INSERT INTO a (id, v) SELECT i, 'many' FROM generate_series(100001, 125000) i")
        ps.catch_up()
        assert ps.publish("a").how == "appended"
    codecs = {pq.read_metadata(file).row_group(0).column(0).compression for file in Path(path).glob("*.parquet")}
    assert codecs <= {"SNAPPY", "ZSTD"}
    rows = DeltaTable(path).to_pyarrow_table()  # refuses any reader feature
    assert Counter(tuple(row.values()) for row in rows.to_pylist()) == in_postgres(source, "a")


def test_inserts_alone_are_appended_as_they_are(
    shop: penstock.Session, source: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.publish("a")
    monkeypatch.setattr(gathered, "SMALL", 0)
    monkeypatch.setattr(reader, "IN_MEMORY_ROWS", 0)
    source.execute("INSERT INTO a SELECT i, 'new' FROM generate_series(100, 120) i")
    shop.catch_up()
    found = gathered.gather(shop.engine.reader, penstock_relation(shop, "a"), *between(shop, "a"))
    assert (type(found).__name__, found.new, found.gone) == ("_Inserts", 21, 0)
    assert shop.publish("a").how == "appended"
    source.execute("INSERT INTO a VALUES (200, 'gone at once'); DELETE FROM a WHERE id IN (200, 3)")
    source.execute("INSERT INTO a VALUES (200, NULL)")
    shop.catch_up()
    found = gathered.gather(shop.engine.reader, penstock_relation(shop, "a"), *between(shop, "a"))
    assert (type(found).__name__, found.new, found.gone) == ("_BySpark", 1, 1)
    monkeypatch.setattr(folding, "OVERWRITE", folding.Cost(1e9, 0, 0))
    assert "next: merged: " in shop.explain("a")
    done = shop.publish("a")
    assert (done.how, done.rows) == ("merged", 71)
    assert by_other_engine(done.path) == in_postgres(source, "a")
    assert [line.how for line in shop.publish_history("a")] == ["merged", "appended", "created"]


def test_a_small_table_is_written_anew_without_spark_and_spark_goes_on_from_there(
    shop: penstock.Session, source: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(number: int) -> str:
        source.execute(f"UPDATE a SET v = 'turn {number}' WHERE id % 7 = {number % 7}".encode())
        source.execute(f"DELETE FROM a WHERE id = {number}; INSERT INTO a VALUES ({1000 + number})".encode())
        shop.catch_up()
        done = shop.publish("a")
        assert by_other_engine(done.path) == in_postgres(source, "a")
        assert done.rows == 50
        assert DeltaTable(done.path).history(1)[0]["version"] == done.version == number
        return f"{done.how} by {str(DeltaTable(done.path).history(1)[0].get('engineInfo')).partition('/')[0]}"

    path = shop.publish("a").path
    assert [change(number) for number in range(1, 12)] == ["overwritten by penstock"] * 11
    assert (Path(path) / "_delta_log" / f"{10:020d}.checkpoint.parquet").exists()
    assert rows_of(shop.spark.read.format("delta").load(path)) == in_postgres(source, "a")
    with monkeypatch.context() as dear:
        dear.setattr(folding, "OVERWRITE", folding.Cost(1e9, 0, 0))
        assert change(12) == "merged by Apache-Spark"
    assert pa.table(DeltaTable(path).deletion_vectors()).num_rows  # which the next commit must name
    assert change(13) == "overwritten by Apache-Spark"
    assert change(14) == "overwritten by penstock"
    assert rows_of(shop.spark.read.format("delta").load(path)) == in_postgres(source, "a")
    assert rows_of(shop.spark.read.format("delta").option("versionAsOf", 11).load(path)).total() == 50


def test_first_mirrors_side_by_side_are_the_files_of_the_copies_and_what_came_after_is_merged_into_them(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, merging: None
) -> None:
    source.execute("CREATE TABLE c (id int PRIMARY KEY); INSERT INTO c SELECT generate_series(1, 20)")
    ps.add_source("shop", source_db, tables=["public.*"])
    source.execute(
        "UPDATE a SET v = 'new' WHERE id = 7; DELETE FROM a WHERE id = 8; UPDATE c SET id = 100 WHERE id = 1"
    )
    source.execute("INSERT INTO b SELECT i, '2026-01-01' FROM generate_series(50, 60) i")
    ps.catch_up()
    with ThreadPoolExecutor(3) as pool:
        published = list(pool.map(ps.publish, ["a", "c", "b"]))
    for done, operations in zip(published, (["WRITE", "MERGE"], ["WRITE", "MERGE"], ["WRITE"]), strict=True):
        table = done.name.rpartition(".")[2]
        assert (done.how, done.rows) == ("created", sum(in_postgres(source, table).values()))
        history = DeltaTable(done.path).history()
        assert [one["operation"] for one in history][::-1] == operations
        assert {json.loads(one["userMetadata"])["penstock"] for one in history} == {done.name}
        assert min(file.stat().st_nlink for file in Path(done.path).glob("part-*-????????????.parquet")) == 2
        delta = ps.spark.read.format("delta").load(done.path)
        assert delta.columns == [field.name for field in DeltaTable(done.path).schema().fields]
        assert rows_of(delta) == by_other_engine(done.path) == in_postgres(source, table)
    assert not ps.spark.read.format("delta").load(done.path).where("id = 55 AND at = '2026-01-01'").isEmpty()


def test_a_large_first_mirror_out_of_key_order_is_sorted(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_writes, "ROWS_PER_FILE", 10)
    monkeypatch.setattr(reader, "IN_MEMORY_ROWS", 0)
    source.execute("CREATE TABLE c (id text PRIMARY KEY, v int)")
    source.execute("INSERT INTO c SELECT md5(i::text), i FROM generate_series(1, 60) i")
    ps.add_source("shop", source_db, tables=["c"])
    source.execute("UPDATE c SET v = -v WHERE v < 5; DELETE FROM c WHERE v = 6; INSERT INTO c VALUES ('new', 0)")
    ps.catch_up()
    assert rows_of(ps.table("c")) == in_postgres(source, "c")
    done = ps.publish("c")
    assert (done.how, done.rows) == ("created", 60)
    assert by_other_engine(done.path) == in_postgres(source, "c")
    files = pa.table(DeltaTable(done.path).get_add_actions(flatten=True)).sort_by("min.id").to_pylist()
    assert len(files) >= 6
    assert all(one["max.id"] < other["min.id"] for one, other in itertools.pairwise(files))


def penstock_relation(ps: penstock.Session, name: str) -> Any:
    from penstock.catalog import relations

    return relations.find(ps.catalog, name)


def between(ps: penstock.Session, name: str) -> tuple[int, int]:
    base = ps.engine.reader.base(penstock_relation(ps, name))
    assert base is not None
    return base.position, int(ps.frontier()["shop"])


def test_reading_the_past_by_lsn_and_by_time(shop: penstock.Session, source: psycopg.Connection[Any]) -> None:
    shop.create_stream_table("total", "SELECT count(*) AS n FROM a", mode="DIFFERENTIAL")
    seen = []
    for step in range(3):
        source.execute("DELETE FROM a WHERE id = %s", (step + 1,))
        source.execute("INSERT INTO b VALUES (%s)", (100 + step,))
        row = source.execute("SELECT clock_timestamp(), pg_current_wal_lsn()::text").fetchone()
        assert row is not None
        shop.catch_up()
        shop.refresh_all()
        seen.append((*row, in_postgres(source, "a"), in_postgres(source, "b")))
        if step == 1:
            shop.publish("a")
    for moment, lsn, a, b in seen:
        assert rows_of(shop.table("a", at=moment)) == rows_of(shop.table("a", at=lsn)) == a
        assert rows_of(shop.table("b", at=shop.frontier(moment))) == b
        assert rows_of(shop.table("total", at=moment)) == Counter({(sum(a.values()),): 1})
        counted = shop.execute("SELECT (SELECT count(*) FROM a) AS n, count(*) AS m FROM b", at=moment)
        assert rows_of(counted) == Counter({(sum(a.values()), sum(b.values())): 1})
    weighted = shop.state("a", at=seen[0][1]).selectExpr("sum(_weight)").first()
    assert weighted is not None
    assert weighted[0] == 49
    changed = shop.changes("a", since=seen[0][0], until=Lsn.parse(seen[1][1]))
    assert rows_of(changed) == Counter({(2, "v2", -1): 1})
    views = shop.register_views(["a", "total"], at=seen[1][0])
    assert views == {"shop.public.a": "a", "total": "total"}
    found = (
        shop.engine.users_spark.sql("SELECT total.n, (SELECT count(*) FROM a) AS m FROM total").toArrow().to_pylist()
    )
    assert found == [{"n": 48, "m": 48}]
    with pytest.raises(NotRetained, match="last captured before"):
        shop.table("a", at=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(NotRetained, match="is readable from"):
        shop.table("a", at="2001-01-01T00:00:00+00:00")
    with pytest.raises(ConfigError, match="no time zone"):
        shop.table("a", at=datetime(2026, 1, 1))
    with pytest.raises(ConfigError, match="neither a frontier, an LSN nor a time"):
        shop.table("a", at="yesterday")


def test_each_relation_at_its_pace_and_none_holds_up_another(
    shop: penstock.Session, source: psycopg.Connection[Any]
) -> None:
    publisher = Publisher(shop.engine, threading.Event())
    shop.set_publishing("b", "manual")
    assert publisher.step() == ["shop.public.a"]
    assert publisher.step() == []
    source.execute("INSERT INTO a VALUES (1000)")
    shop.catch_up()
    assert publisher.step() == []  # resting: publishing took long enough
    shop.set_publishing("a", "every-cut")
    shop.set_publishing("b", "1s")
    foreign = shop.home.base("tables/shop/public/a")
    shop.spark.sql("SELECT 7 AS id, 'other' AS v").write.format("delta").mode("append").save(str(foreign))
    assert publisher.step() == ["shop.public.b", "shop.public.a"]
    assert "written by someone else" in str(shop.publish_history("a")[0].error)
    assert publisher.step() == []  # left aside
    assert shop.publish_history("b")[0].how == "created"
    with pytest.raises(PublishError, match="written by someone else"):
        shop.publish("a")
    assert rows_of(shop.table("a")) == in_postgres(source, "a")  # of our version, and what was captured since
    with pytest.raises(ConfigError, match="not a pace"):
        shop.set_publishing("a", "often")


def test_a_slow_publish_holds_up_neither_capture_nor_refreshes(
    shop: penstock.Session, source: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create_stream_table("total", "SELECT count(*) AS n FROM b", mode="DIFFERENTIAL", schedule="1s")
    held, go = threading.Event(), threading.Event()
    write = publish._begun

    def slow(*arguments: Any) -> Any:
        held.set()
        assert go.wait(60)
        return write(*arguments)

    monkeypatch.setattr(publish, "_begun", slow)
    monkeypatch.setattr(publishers, "_TICK", 0.05)
    thread = threading.Thread(target=shop.run)
    thread.start()
    try:
        assert held.wait(60)
        source.execute("INSERT INTO b VALUES (1000)")
        deadline = time.monotonic() + 60
        while not shop.history("total") or rows_of(shop.table("total")) != Counter({(6,): 1}):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        shop.stop()
        go.set()
        thread.join()


def test_the_end_of_a_run_waits_for_no_publish_and_the_next_one_does_it(
    shop: penstock.Session, source: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    def endless(*_: Any) -> Any:
        held.set()
        return shop.spark.range(1 << 50).selectExpr("sum(id)").collect()

    with monkeypatch.context() as patched:
        patched.setattr(publish, "_begun", endless)
        patched.setattr(publishers, "_TICK", 0.05)
        thread = threading.Thread(target=shop.run)
        thread.start()
        assert held.wait(60)
        shop.stop()
        thread.join(30)
        assert not thread.is_alive()
    assert shop.publish_history("a") == []  # nothing failed
    assert {one.how for one in shop.publish_all()} == {"created"}
    standing = {one.name: one for one in shop.status().delta_tables}
    assert (standing["shop.public.a"].how, standing["shop.public.a"].rows, standing["shop.public.a"].behind) == (
        "created", 50, 0,
    )  # fmt: skip
    source.execute("INSERT INTO a VALUES (1000); UPDATE b SET id = -id WHERE id = 1")
    shop.catch_up()
    (shop.home.base("tables/shop/public/b") / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(PublishError):
        shop.publish("b")
    standing = {one.name: one for one in shop.status().delta_tables}
    assert (standing["shop.public.a"].behind, standing["shop.public.b"].behind) == (1, 2)
    assert standing["shop.public.a"].error is None
    assert "is gone" in str(standing["shop.public.b"].error)
    told = CliRunner().invoke(app, ["status", "--home", str(shop.home.root), "--catalog", shop.catalog.dsn])
    assert told.exit_code == 0, told.output
    assert "shop.public.b cannot be published" in told.output
