"""A copy that is interrupted goes on: finished ranges stay, and what results is the table, exactly.

The oracle is PostgreSQL: after every resume the rows here are those of the table at the LSN that is read.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from servers import server_version

import penstock
from penstock import failpoint
from penstock.capture.source_at import SourceAt
from penstock.catalog import copies, relations, sources
from penstock.errors import ConfigError, NotFound, NotYet, PublicationLost, SourceError
from penstock.failpoint import FailpointReached
from penstock.lake.settling import settle_source

pytestmark = pytest.mark.since(11, "a source needs no option about TRUNCATE")
OPTIONS: dict[str, Any] = {"copy_range_blocks": 2, "copy_workers": 2}


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text, big text) WITH (fillfactor = 70)")
        connection.execute("ALTER TABLE t ALTER big SET STORAGE EXTERNAL; CREATE SEQUENCE fresh START 100000")
        connection.execute("INSERT INTO t SELECT i, repeat('v', i % 60), NULL FROM generate_series(1, 1500) i")
        connection.execute("UPDATE t SET big = repeat(md5(id::text), 100) WHERE id % 10 = 0")
        connection.execute("VACUUM t")
        yield connection


def here(ps: penstock.Session, name: str, cut: int) -> Counter[tuple[Any, ...]]:
    rows = ps.engine.reader.rows_arrow(relations.find(ps.catalog, name), cut)
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def assert_equal(ps: penstock.Session, dsn: str, *names: str) -> None:
    """Both at one LSN, while the application may go on writing."""
    with SourceAt(dsn) as server:
        lease = ps.engine.captures.catch_up("shop", server.lsn)
        settle_source(ps.engine.reader, ps.catalog, lease, "shop")
        for name in names:
            assert here(ps, name, server.lsn) == Counter(server.rows(f"SELECT * FROM public.{name}"))


def interrupt(ps: penstock.Session, dsn: str, *, after: int, tables: list[str] | None = None, at: str = "copy") -> None:
    with failpoint.arm(f"{at}.after_commit", after=after), pytest.raises(FailpointReached):
        ps.add_source("shop", dsn, tables=tables or ["t"], **OPTIONS)


def finished_ranges(ps: penstock.Session) -> int:
    source = sources.get(ps.catalog, "shop")
    found = [one for copy in copies.pending(ps.catalog, source.id) for one in copies.ranges(ps.catalog, copy.id)]
    return sum(one.lsn is not None for one in found)


def move_rows(db: psycopg.Connection[Any], seed: int) -> None:
    """Updates that move rows to other blocks, deletes, new rows, changed keys and values out of line."""
    chance = random.Random(seed)
    for _ in range(12):
        key = chance.randrange(1, 1500)
        step = chance.randrange(8)
        with db.transaction():
            if step == 0:
                db.execute("UPDATE t SET v = repeat('m', 900) WHERE id BETWEEN %s AND %s", (key, key + 30))
            elif step == 1:
                db.execute("DELETE FROM t WHERE id BETWEEN %s AND %s", (key, key + 20))
            elif step == 2:
                db.execute("UPDATE t SET id = nextval('fresh') WHERE id BETWEEN %s AND %s", (key, key + 15))
            elif step == 3:
                db.execute("UPDATE t SET v = 'toast stays' WHERE id BETWEEN %s AND %s", (key, key + 40))
            elif step == 4:
                db.execute("INSERT INTO t SELECT nextval('fresh'), 'new', NULL FROM generate_series(1, 25)")
            elif step == 5:
                db.execute("DELETE FROM t WHERE id = %s", (key,))
                db.execute("INSERT INTO t VALUES (%s, 'again', repeat('x', 5000))", (key,))
            elif step == 6:
                db.execute("UPDATE t SET v = v WHERE id BETWEEN %s AND %s", (key, key + 60))  # moves, changes nothing
            else:
                db.execute("UPDATE t SET big = repeat('y', 4000) WHERE id %% 97 = %s", (key % 97,))
    db.execute("VACUUM t")  # room in old blocks: later versions move there


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_moved_between_ranges_are_right_after_a_crash(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, seed: int
) -> None:
    """Interrupted three times, with changes before, between and after."""
    db.execute(f"ALTER TABLE t REPLICA IDENTITY {'FULL' if seed % 2 else 'DEFAULT'}")
    interrupt(ps, source_db, after=3 + seed)
    kept = finished_ranges(ps)
    assert kept >= 3 + seed
    move_rows(db, seed)
    interrupt(ps, source_db, after=2)
    assert finished_ranges(ps) > kept
    move_rows(db, seed + 100)
    interrupt(ps, source_db, after=1, at="copy_correct")
    move_rows(db, seed + 200)
    ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    assert_equal(ps, source_db, "t")
    move_rows(db, seed + 300)
    assert_equal(ps, source_db, "t")


@pytest.mark.parametrize(
    "rewrite",
    [
        "VACUUM FULL t",
        "TRUNCATE t; INSERT INTO t VALUES (1, 'after', NULL)",
        "ALTER TABLE t ALTER id TYPE int8",
        "ALTER TABLE t ADD extra int DEFAULT 7",
        "CREATE TABLE t2 AS TABLE t; ALTER TABLE t2 ADD PRIMARY KEY (id); DROP TABLE t; ALTER TABLE t2 RENAME TO t",
    ],
)
def test_a_table_that_was_rewritten_is_copied_from_the_start(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, rewrite: str
) -> None:
    interrupt(ps, source_db, after=4)
    for statement in rewrite.split("; "):
        db.execute(statement)
    if "RENAME" in rewrite:
        publication = sources.get(ps.catalog, "shop").publication
        db.execute(f"ALTER PUBLICATION {publication} ADD TABLE ONLY t")
    db.execute("UPDATE t SET v = 'changed' WHERE id < 300")
    ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    db.execute("UPDATE t SET v = 'later' WHERE id < 30; DELETE FROM t WHERE id > 1400")
    assert_equal(ps, source_db, "t")


def test_a_table_that_left_the_publication_for_a_while_is_copied_from_the_start(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    interrupt(ps, source_db, after=4)
    publication = sources.get(ps.catalog, "shop").publication
    db.execute(f"CREATE TABLE spare (id int PRIMARY KEY); ALTER PUBLICATION {publication} ADD TABLE spare")
    db.execute(f"ALTER PUBLICATION {publication} DROP TABLE t")
    db.execute("UPDATE t SET v = 'not published' WHERE id < 700; DELETE FROM t WHERE id > 1300")
    db.execute(f"ALTER PUBLICATION {publication} ADD TABLE ONLY t")
    ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    assert_equal(ps, source_db, "t")


def test_a_table_without_a_key_is_copied_from_the_start(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    db.execute(
        "CREATE TABLE n AS SELECT i %% 50 AS a, repeat('n', 90) AS b FROM generate_series(1, 1500) i".replace("%%", "%")
    )
    db.execute("ALTER TABLE n REPLICA IDENTITY FULL")
    interrupt(ps, source_db, after=4 if server_version() >= 14 else 1, tables=["n"])  # before 14 it is one range
    db.execute(
        "UPDATE n SET b = 'other' WHERE a < 7; DELETE FROM n WHERE a = 9; INSERT INTO n VALUES (1, 'x'), (1, 'x')"
    )
    ps.add_source("shop", source_db, tables=["n"], **OPTIONS)
    db.execute("DELETE FROM n WHERE a = 10")
    assert_equal(ps, source_db, "n")


def test_the_stream_goes_on_while_an_application_writes(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    """Interrupted and resumed under load; nothing is readable before it is whole."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(source_db, autocommit=True) as connection:
            seed = 1000
            while not stop.is_set():
                move_rows(connection, seed)
                seed += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        interrupt(ps, source_db, after=5)
        with pytest.raises(NotFound):
            ps.engine.position("t")
        interrupt(ps, source_db, after=2)
        ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
        assert_equal(ps, source_db, "t")
    finally:
        stop.set()
        writer.join()
    assert_equal(ps, source_db, "t")


def test_an_error_takes_back_a_copy_of_which_nothing_is_durable_and_keeps_any_other(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"

    def fails(*_: Any) -> None:
        raise SourceError("no", hint="Try again.")

    with monkeypatch.context() as patch:
        patch.setattr(copies, "finish_range", fails)
        with pytest.raises(SourceError):
            ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    assert db.execute(slots).fetchone() == (0,)
    assert ps.status().sources == ()

    left = iter(range(3))
    real = copies.finish_range

    def fails_later(*arguments: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(copies, "finish_range", fails_later)
        with pytest.raises(KeyboardInterrupt):
            ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    assert finished_ranges(ps) == 3
    assert db.execute(slots).fetchone() == (1,)
    assert ps.status().sources[0].state == "copying"
    ps.remove_source("shop")
    assert db.execute(slots).fetchone() == (0,)
    assert not list(ps.home.changelog("").glob("**/*.parquet"))


def test_a_table_is_added_and_left_out_while_the_rest_goes_on(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    first = relations.find(ps.catalog, "t")
    db.execute("CREATE TABLE extra (k text, n int, PRIMARY KEY (k, n)); INSERT INTO extra VALUES ('a', 1), ('b', 2)")
    move_rows(db, 7)
    db.execute("UPDATE extra SET n = 3 WHERE k = 'a'")
    with failpoint.arm("copy_begin.after_commit"), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t", "extra"], **OPTIONS)
    move_rows(db, 8)
    db.execute("UPDATE extra SET k = 'c' WHERE n = 3; INSERT INTO extra VALUES ('d', 4)")
    ps.add_source("shop", source_db, tables=["t", "extra"], **OPTIONS)
    db.execute("DELETE FROM extra WHERE k = 'b'; UPDATE extra SET n = 9 WHERE k = 'd'")
    move_rows(db, 9)
    assert_equal(ps, source_db, "t", "extra")
    assert relations.find(ps.catalog, "t") == first  # not copied again

    ps.add_source("shop", source_db, tables=["public.*"], **OPTIONS)
    db.execute("CREATE TABLE third (id int PRIMARY KEY); INSERT INTO third VALUES (1)")
    ps.add_source("shop", source_db, tables=["public.*"], **OPTIONS)
    assert_equal(ps, source_db, "t", "extra", "third")

    ps.create_stream_table("counted", "SELECT count(*) AS n FROM public.third")
    with pytest.raises(ConfigError, match="counted"):
        ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    ps.drop_stream_table("counted")
    ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    assert [one.table for one in relations.of_source(ps.catalog, "shop")] == ["public.t"]
    published = db.execute("SELECT tablename FROM pg_publication_tables").fetchall()
    assert published == [("t",)]
    assert_equal(ps, source_db, "t")


def test_a_table_is_copied_again_on_request(ps: penstock.Session, db: psycopg.Connection[Any], source_db: str) -> None:
    db.execute("CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1)")
    ps.add_source("shop", source_db, tables=["t", "other"], **OPTIONS)
    move_rows(db, 1)
    assert_equal(ps, source_db, "t", "other")
    before = ps.frontier()["shop"]
    ps.catalog.connection.execute(
        "DELETE FROM segments WHERE relation_id = (SELECT id FROM relations WHERE name = 'shop.public.t')"
    )
    move_rows(db, 2)
    with failpoint.arm("copy.after_commit", after=3), pytest.raises(FailpointReached):
        ps.resync("shop", "t")
    with pytest.raises(NotFound):
        ps.engine.position("t")
    move_rows(db, 3)
    db.execute("INSERT INTO other VALUES (2)")
    ps.resync("shop", "public.t")
    assert_equal(ps, source_db, "t", "other")
    assert relations.find(ps.catalog, "t").since > before
    assert relations.find(ps.catalog, "other").since <= before
    with pytest.raises(NotFound, match="no table of source 'shop'"):
        ps.resync("shop", "nothing")


def test_a_table_of_another_shape_is_copied_again_also_if_a_stream_table_reads_it(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    ps.add_source("shop", source_db, tables=["t"], **OPTIONS)
    ps.create_stream_table("lengths", "SELECT id, v FROM public.t")
    db.execute(
        "UPDATE t SET v = 'before' WHERE id = 1; ALTER TABLE t ADD extra int; UPDATE t SET extra = 1 WHERE id < 9"
    )
    ps.resync("shop", "t")
    db.execute("UPDATE t SET extra = 2 WHERE id < 4")
    assert_equal(ps, source_db, "t")


def test_nothing_joins_a_stream_that_may_have_open_prepared_transactions(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    if db.info.server_version < 150000:
        pytest.skip("two_phase came with 15")
    db.execute("CREATE TABLE later (id int PRIMARY KEY)")
    ps.add_source("shop", source_db, tables=["t"], two_phase=True)
    with pytest.raises(NotYet, match="two_phase"):
        ps.add_source("shop", source_db, tables=["t", "later"], two_phase=True)
    with pytest.raises(NotYet, match="two_phase"):
        ps.resync("shop", "t")
    db.execute("UPDATE t SET v = 'on it goes' WHERE id < 9")
    assert_equal(ps, source_db, "t")


GONE = {
    "dropped": ("DROP TABLE t", None),
    "made again": ("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (5, 55)", "t"),
    "renamed": ("ALTER TABLE t RENAME TO t2; INSERT INTO t2 VALUES (9999)", "t2"),
    "without its key": ("ALTER TABLE t DROP CONSTRAINT t_pkey", None),
    "a view": ("ALTER TABLE t RENAME TO t2; CREATE VIEW t AS SELECT * FROM t2", "t2"),
}


@pytest.mark.parametrize("first", [True, False], ids=["first copy", "copied again"])
@pytest.mark.parametrize(("change", "after"), GONE.values(), ids=GONE)
def test_what_becomes_of_a_table_that_waits_for_its_copy_does_not_stop_the_others(
    ps: penstock.Session,
    db: psycopg.Connection[Any],
    source_db: str,
    change: str,
    after: str | None,
    first: bool,
) -> None:
    db.execute("CREATE TABLE o (id int PRIMARY KEY); INSERT INTO o VALUES (1)")
    ps.add_source("shop", source_db, tables=["public.*", *(["!public.t"] if first else [])], **OPTIONS)
    last = db.execute("SELECT count(*) FROM t").fetchall()[0][0]
    if first:
        interrupt(ps, source_db, after=2, tables=["public.*"])
    else:
        with failpoint.arm("copy.after_commit", after=2), pytest.raises(FailpointReached):
            ps.resync("shop", "t")
    ps.engine.captures.close()
    db.execute(f"{change}; INSERT INTO o VALUES (2)")
    for number in (3, 4):
        ps.engine.captures.catch_up("shop")
        assert_equal(ps, source_db, "o", *([after] if after else []))
        db.execute("INSERT INTO o VALUES (%s)", [number])
    ps.engine.captures.close()
    assert_equal(ps, source_db, "o", *([after] if after else []))
    told = {event.kind for event in ps.events("shop") if event.table == "public.t"}
    assert ("ended" in told) == (after != "t")
    if after != "t" and not first:
        relation, position, _ = ps.engine.position("t", None)
        assert ps.engine.reader.rows_arrow(relation, position).num_rows == last
    if after is None and "refused" not in told:  # what was refused is tried again a minute later
        db.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, w text); INSERT INTO t VALUES (1, 'w')")
        ps.engine.captures.catch_up("shop")
        assert_equal(ps, source_db, "o", "t")


def test_a_listed_table_that_went_before_it_was_copied_is_taken_in_when_it_comes_again(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    db.execute("CREATE TABLE o (id int PRIMARY KEY); INSERT INTO o VALUES (1)")
    ps.add_source("shop", source_db, tables=["o"], **OPTIONS)
    interrupt(ps, source_db, after=2, tables=["o", "t"])
    ps.engine.captures.close()
    db.execute("DROP TABLE t")
    for _ in range(2):
        ps.engine.captures.catch_up("shop")
    db.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    ps.engine.captures.catch_up("shop")
    assert_equal(ps, source_db, "o", "t")
    assert [event.kind for event in ps.events("shop")] == ["added", "ended"]


def test_a_given_publication_that_lacks_a_table_that_waits_for_its_copy_is_an_error(
    ps: penstock.Session, db: psycopg.Connection[Any], source_db: str
) -> None:
    """Only whoever made it may extend it: trying again and again would lead nowhere."""
    db.execute("CREATE TABLE given (id int PRIMARY KEY); CREATE PUBLICATION theirs FOR TABLE t, given")
    options = {**OPTIONS, "publication_name": "theirs"}
    with failpoint.arm("copy.after_commit", after=1), pytest.raises(FailpointReached):
        ps.add_source("shop", source_db, tables=["t", "given"], **options)
    db.execute("ALTER PUBLICATION theirs DROP TABLE t")
    with pytest.raises(PublicationLost, match=r"public\.t"):
        ps.catch_up()
