"""Small commits are settled before they are written: one file, one commit, and the same rows as by the settle step."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable, write_deltalake
from servers import NO_TRUNCATE

import penstock
from penstock.capture import ingest
from penstock.catalog import relations, sources
from penstock.catalog.relations import Base
from penstock.errors import SourceError
from penstock.lake import settling
from penstock.lake.latest_rows import LatestRows
from penstock.refresh.positions import readable


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int, big text)")
        connection.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
        connection.execute("INSERT INTO t SELECT i, i, repeat('x', 3000 + i) FROM generate_series(1, 40) i")
        yield connection


def equal(ps: penstock.Session, db: psycopg.Connection[Any]) -> bool:
    relation, position, _ = ps.engine.position("t")
    found = ps.engine.reader.rows_arrow(relation, position)
    return Counter(tuple(row.values()) for row in found.to_pylist()) == Counter(db.execute("SELECT * FROM t"))


def purposes(ps: penstock.Session) -> Counter[str]:
    return Counter(row["purpose"] for row in ps.catalog.all("SELECT purpose FROM rounds"))


def test_one_commit_makes_a_change_readable(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    before = purposes(ps)
    for step in range(3):
        with db.transaction():
            db.execute("UPDATE t SET v = v + 1 WHERE id %% 2 = %s", (step % 2,))  # of `big`, the log has nothing
            db.execute("UPDATE t SET id = id + 1000, v = 0 WHERE id = %s", (10 + step,))
            db.execute("DELETE FROM t WHERE id = %s", (30 + step,))
            db.execute("UPDATE t SET v = v * 2 WHERE id > 1000")
        ps.catch_up()
        assert equal(ps, db)
    assert purposes(ps) - before == Counter(ingest=3)
    raw = ps.catalog.one("SELECT count(*) AS n FROM segments WHERE form = 'raw'")
    assert raw == {"n": 0}


@pytest.mark.since(11, "TRUNCATE in the stream")
def test_a_truncate(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"])
    with db.transaction():
        db.execute("UPDATE t SET v = 0")
        db.execute("TRUNCATE t")
        db.execute("INSERT INTO t VALUES (1, 1, 'y'), (2, 2, 'y')")
        db.execute("UPDATE t SET v = v + 1")
    ps.catch_up()
    assert equal(ps, db)
    with db.transaction():
        db.execute("INSERT INTO t VALUES (3, 3, 'y')")
        db.execute("TRUNCATE t")
    ps.catch_up()
    assert equal(ps, db)


def test_what_waits_is_settled_first(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of a row whose change before is captured and not yet settled."""
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    with monkeypatch.context() as later:
        later.setattr(ingest, "AT_ONCE_ROWS", -1)
        db.execute("UPDATE t SET v = 100 WHERE id = 1")
        ps.engine.captures.catch_up("shop")  # without the settle step
    db.execute("UPDATE t SET v = v + 1 WHERE id = 1")
    ps.engine.captures.catch_up("shop")
    shop = sources.get(ps.catalog, "shop")
    assert shop.settled is not None
    assert shop.captured is not None
    assert shop.settled < shop.captured
    assert len(relations.waiting_of(ps.catalog, shop.id)) == 1
    ps.catch_up()
    assert equal(ps, db)


def test_a_new_shape_waits(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    db.execute("UPDATE t SET v = 1 WHERE id = 1")
    with db.transaction():
        db.execute("UPDATE t SET v = 2 WHERE id = 2")
        db.execute("ALTER TABLE t ADD c int")
        db.execute("UPDATE t SET c = v WHERE id < 5")
    ps.catch_up()
    assert equal(ps, db)
    db.execute("UPDATE t SET c = c + 1 WHERE id < 5")
    before = purposes(ps)
    ps.catch_up()
    assert equal(ps, db)
    assert purposes(ps) - before == Counter(ingest=1)


def test_what_cannot_be_settled_is_captured_all_the_same(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is durable and the slot may go on; the settle step tells what is wrong."""
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)

    def parted(*_: object, **__: object) -> None:
        raise SourceError("a change refers to a row that is not known here")

    with monkeypatch.context() as broken:
        broken.setattr(settling, "settle", parted)
        db.execute("UPDATE t SET v = 5 WHERE id = 1")
        with pytest.raises(SourceError, match="not known here"):
            ps.catch_up()
        shop = sources.get(ps.catalog, "shop")
        assert len(relations.waiting_of(ps.catalog, shop.id)) == 1
    ps.catch_up()
    assert equal(ps, db)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_found_by_key_whatever_happens_to_the_table(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Bases come, readers begin anew, small segments are put together, the table is copied again or changes shape."""
    told: Counter[bool] = Counter()
    find = LatestRows.find

    def counted(*arguments: Any) -> Any:
        found = find(*arguments)
        told[found is not None] += 1
        return found

    monkeypatch.setattr(LatestRows, "find", counted)
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    rng = random.Random(seed)
    for step in range(40):
        with db.transaction():
            for _ in range(rng.randint(1, 4)):
                db.execute(rng.choice(_CHANGES), {"id": rng.randint(1, 60), "v": step})
        ps.catch_up()
        assert equal(ps, db)
        match rng.randint(0, 9):
            case 0 | 1:
                _publish(ps)
            case 2:
                ps.maintain()
            case 3:
                ps.engine.read_anew()
            case 4:
                ps.resync("shop", "t")
    assert told[True] > 20


_CHANGES = [
    "UPDATE t SET v = %(v)s WHERE id = %(id)s",
    "UPDATE t SET v = v WHERE id BETWEEN %(id)s AND %(id)s + 3",
    "UPDATE t SET big = repeat('y', 2500 + %(v)s) WHERE id = %(id)s",
    "DELETE FROM t WHERE id = %(id)s",
    "INSERT INTO t VALUES (%(id)s, %(v)s, repeat('z', 2600)) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
    "UPDATE t SET id = id + 100 WHERE id = %(id)s AND NOT EXISTS (SELECT FROM t WHERE id = %(id)s + 100)",
]


def _publish(ps: penstock.Session) -> None:
    """The table as it is becomes a base."""
    relation, position, _ = ps.engine.position("t")
    rows = ps.engine.reader.rows_arrow(relation, position)
    folder = ps.home.base(relation.folder)
    write_deltalake(folder, rows, mode="overwrite")
    with ps.catalog.lease("publish t") as lease, ps.catalog.commit(lease, None, "publish") as commit:
        base = Base(position, DeltaTable(folder).version(), rows.num_rows, relation.version)
        relations.record_base(commit, relation.id, base)


def test_rows_of_a_table_that_was_never_copied(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    """What is removed and was never here is nothing at all."""
    ps.add_source("shop", source_db, tables=["t"], snapshot_mode="never", **NO_TRUNCATE)
    db.execute("DELETE FROM t WHERE id = 1")
    ps.catch_up()
    db.execute("UPDATE t SET v = 7, big = 'new' WHERE id = 2")
    ps.catch_up()
    relation, position, _ = ps.engine.position("t")
    assert ps.engine.reader.rows_arrow(relation, position).to_pylist() == [{"id": 2, "v": 7, "big": "new"}]


def test_what_has_come_is_taken_while_more_comes(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    """Without waiting for the newest, and in whole transactions: the sum over the table never changes."""
    ps.add_source("shop", source_db, tables=["t"], **NO_TRUNCATE)
    total, over = 40 * 41 // 2, threading.Event()

    def write() -> None:
        with psycopg.connect(source_db, autocommit=True) as application:
            number = 0
            while not over.is_set():
                number += 1
                with application.transaction():
                    application.execute("UPDATE t SET v = v + 1 WHERE id = %s", (1 + number % 40,))
                    application.execute("UPDATE t SET v = v - 1 WHERE id = %s", (1 + (number + 7) % 40,))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        cuts = []
        for _ in range(30):
            ps.engine.capture(wait=False)
            cuts.append(readable(ps.catalog)["shop"])
            relation, position, _ = ps.engine.position("t")
            assert sum(row["v"] for row in ps.engine.reader.rows_arrow(relation, position).to_pylist()) == total
    finally:
        over.set()
        writer.join()
    assert cuts == sorted(cuts)
    assert len(set(cuts)) > 10
    ps.catch_up()
    assert equal(ps, db)
