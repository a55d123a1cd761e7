"""A transaction of any size passes: of large rows, a batch has few, and all of them are the table in the end."""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pytest
from servers import NO_TRUNCATE, server_version

import penstock

MEMORY = 1 << 20
LARGE = 100_000  # bytes of a text
OPTIONS = {"max_transaction_memory_bytes": MEMORY}


@pytest.fixture
def wide(db, source_db):
    """A table whose values take as much room in the log as they have bytes."""
    if server_version() >= 14:  # so that what is streamed while it runs is streamed
        db.execute(f'ALTER DATABASE "{psycopg.conninfo.conninfo_to_dict(source_db)["dbname"]}" '
                   "SET logical_decoding_work_mem = '64kB'")  # fmt: skip
    db.execute("CREATE TABLE wide (id int PRIMARY KEY, x text, y int)")
    db.execute("ALTER TABLE wide ALTER x SET STORAGE EXTERNAL")
    return db


def change(db) -> None:
    """Small rows among large ones, one that alone is more than a batch, and a commit that fits behind it."""
    with db.transaction():
        db.execute(f"INSERT INTO wide SELECT g, repeat(chr(97 + g % 26), {LARGE}), 0 FROM generate_series(1, 200) g")
        db.execute("INSERT INTO wide SELECT g, 'small', 0 FROM generate_series(1001, 2000) g")
        db.execute("INSERT INTO wide VALUES (5000, %s, 0)", ["z" * 3 * MEMORY])
        db.execute("UPDATE wide SET x = x || '!' WHERE id % 3 = 0")
        db.execute("UPDATE wide SET id = id + 100000, x = x || '?' WHERE id % 3 = 0")
        db.execute("DELETE FROM wide WHERE id % 5 = 0")
    db.execute("INSERT INTO wide VALUES (0, 'behind', 0)")


def table(db) -> dict[tuple[int], dict]:
    with db.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return {(row["id"],): row for row in cursor.execute("SELECT * FROM wide")}


def content(rows: pa.Table) -> int:
    return sum(len(text or "") for text in rows["x"].to_pylist())


READERS = [
    pytest.param({"reader": "stream", "streaming": "off"}, id="spilled"),
    pytest.param({"reader": "stream", "streaming": "on"}, id="streamed", marks=pytest.mark.since(14, "streaming")),
    pytest.param({"reader": "pull"}, id="pull", marks=pytest.mark.since(14, "pulling")),
]


@pytest.mark.parametrize("consolidate", ["off", "transaction", "flush"])
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize("reader", READERS)
def test_batches_are_limited_by_bytes(wide, make_source, drain, tmp_path, reader, identity, consolidate) -> None:
    wide.execute(f"ALTER TABLE wide REPLICA IDENTITY {identity}")
    source = make_source(
        "wide", consolidate=consolidate, spill_directory=str(tmp_path), **OPTIONS, **(reader | NO_TRUNCATE)
    )
    source.open()
    received = drain(source, limit=100_000)
    change(wide)
    received = drain(source, received, limit=100_000)
    assert received.state("public.wide", "id") == table(wide)
    sizes = [(batch.rows, content(rows)) for batch in received.batches for rows in batch.to_arrow().values()]
    assert [size for rows, size in sizes if size > MEMORY and rows > 1] == []
    assert any(not batch.complete for batch in received.batches if not batch.snapshot)
    assert received.batches[-1].complete


def test_small_commits_are_not_divided_beside_large_ones(wide, make_source, drain, tmp_path) -> None:
    """What fits goes out whole: commits before and behind a large one, as many as there is room for."""
    source = make_source("wide", spill_directory=str(tmp_path), **OPTIONS)
    source.open()
    drain(source)
    for number in range(30):
        wide.execute("INSERT INTO wide VALUES (%s, %s, 0)", [number, "x" * LARGE])
    received = drain(source, limit=100_000)
    assert all(batch.complete for batch in received.batches)
    assert received.state("public.wide", "id") == table(wide)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_home_takes_it_in_parts(wide, source_db, ps: penstock.Session, identity: str) -> None:
    wide.execute(f"ALTER TABLE wide REPLICA IDENTITY {identity}")
    ps.add_source("shop", source_db, tables=["wide"], **(OPTIONS | NO_TRUNCATE))
    change(wide)
    ps.catch_up()
    relation, position, _ = ps.engine.position("wide")
    found = {(row["id"],): row for row in ps.engine.reader.rows_arrow(relation, position).to_pylist()}
    assert found == table(wide)
