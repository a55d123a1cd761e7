"""What goes wrong in the middle of capture changes nothing but the time: the next call starts from the catalog."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock.capture.ingest import Ingest
from penstock.catalog import attempts
from penstock.errors import Busy, NotRetained
from penstock.lsn import Lsn
from penstock.relation.segment import SegmentWriter

pytestmark = pytest.mark.since(11, "a source needs no option about TRUNCATE")


@pytest.fixture
def source(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (id int PRIMARY KEY)")
        connection.execute("INSERT INTO a SELECT i, i FROM generate_series(1, 20) i; INSERT INTO b VALUES (1)")
        yield connection


def change(source: psycopg.Connection[Any], number: int) -> None:
    with source.transaction():
        source.execute("INSERT INTO a VALUES (%s, 0)", (number,))
        source.execute("UPDATE a SET v = v + 1 WHERE id < 5")
        source.execute("INSERT INTO b VALUES (%s)", (number,))


def assert_equal(ps: penstock.Session, source: psycopg.Connection[Any]) -> None:
    for table in ("a", "b"):
        rows = ps.engine.reader.rows_arrow(*ps.engine.position(table)[:2]).to_pylist()
        expected = Counter(source.execute(f"SELECT * FROM {table}").fetchall())
        assert Counter(tuple(row.values()) for row in rows) == expected


@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["disk full", "Ctrl-C"])
@pytest.mark.parametrize("place", [(SegmentWriter, "write", 2), (Ingest, "_take", 1)], ids=["writing", "taking"])
def test_an_error_in_a_catch_up_neither_doubles_nor_loses(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch,
    error: BaseException, place: tuple[type, str, int],
) -> None:  # fmt: skip
    ps.add_source("shop", source_db, tables=["a", "b"])
    owner, name, at = place
    real, calls = getattr(owner, name), iter(range(1, 100))

    def failing(*arguments: Any, **options: Any) -> Any:
        if next(calls) == at:
            raise error
        return real(*arguments, **options)

    change(source, 100)
    monkeypatch.setattr(owner, name, failing)
    with pytest.raises(type(error)):
        ps.catch_up()
    change(source, 101)
    ps.catch_up()
    assert_equal(ps, source)


def test_a_lost_connection_is_made_again(ps: penstock.Session, source: psycopg.Connection[Any], source_db: str) -> None:
    ps.add_source("shop", source_db, tables=["a", "b"])
    change(source, 99)
    ps.catch_up()
    source.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL")
    change(source, 100)
    ps.catch_up()
    assert_equal(ps, source)


def test_whoever_comes_second_leaves_the_first_copy_alone(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, catalog_db: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    real, seen = Ingest.finish_copies, []

    def finish(self: Ingest) -> None:
        if not seen:
            with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as second:
                with pytest.raises(Busy) as caught:
                    second.add_source("shop", source_db, tables=["a", "b"])
                seen.append(caught.value)
        real(self)

    monkeypatch.setattr(Ingest, "finish_copies", finish)
    ps.add_source("shop", source_db, tables=["a", "b"])
    assert seen
    assert_equal(ps, source)


@pytest.mark.usefixtures("settled_later")
def test_the_copy_can_be_read_at_once_whatever_was_written_meanwhile(
    ps: penstock.Session, source: psycopg.Connection[Any], source_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Ingest.server_position

    def later(self: Ingest) -> Lsn:
        change(source, 100)
        return real(self)

    monkeypatch.setattr(Ingest, "server_position", later)
    ps.add_source("shop", source_db, tables=["a", "b"])
    copied = ps.frontier()["shop"]
    rows = ps.engine.reader.rows_arrow(*ps.engine.position("a")[:2])
    assert rows.num_rows == 20
    with pytest.raises(NotRetained, match=f"readable from {copied} on"):
        ps.engine.position("a", penstock.Frontier(shop=copied - 1))


def test_one_lease_at_a_time_also_within_a_session(ps: penstock.Session) -> None:
    with ps.catalog.lease("work"), pytest.raises(Busy):
        ps.catalog.lease("work")
    with ps.catalog.lease("work"):
        pass


def test_a_lease_whose_process_has_ended_is_waited_for(ps: penstock.Session, catalog_db: str) -> None:
    """The server notices only a moment later that a killed process is gone: a restart is not refused for that."""
    lock = "SELECT pg_advisory_lock(hashtextextended('penstock:work', 0))"
    ended = subprocess.Popen(["true"])
    ended.wait()
    with ps.catalog.lease("work"):
        pass
    before = "UPDATE leases SET holder = %s, acquired_at = now() - %s * interval '1 day' WHERE name = 'work'"
    for epoch, (pid, days) in enumerate([(ended.pid, 0), (os.getpid(), 1000)], 2):  # gone, or its number used again
        ps.catalog.connection.execute(before, (f"process {pid} on {socket.gethostname()}", days))
        with psycopg.connect(catalog_db, autocommit=True) as killed:
            killed.execute(lock)
            noticed = threading.Timer(0.3, killed.close)
            noticed.start()
            with ps.catalog.lease("work") as lease:
                assert killed.closed
                assert lease.epoch == epoch
            noticed.join()
    with psycopg.connect(catalog_db, autocommit=True) as alive:
        alive.execute(lock)  # and the record is of this process: not waited for
        with pytest.raises(Busy, match=f"by process {os.getpid()} on"):
            ps.catalog.lease("work")


def test_two_sessions_of_one_process_share_the_embedded_catalog(tmp_path: Path) -> None:
    with penstock.connect(home=tmp_path) as first:
        with penstock.connect(home=tmp_path) as second:
            assert second.status() == first.status()
        assert first.status().sources == ()


def test_what_a_dead_attempt_left_is_collected_be_it_file_or_folder(ps: penstock.Session) -> None:
    lease = ps.catalog.lease("work")
    dead = ps.catalog.begin(lease, "refresh")
    folder = ps.home.changelog("views/v") / f"a{dead:08d}-0001.staging"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").touch()
    file = folder.with_name(f"a{dead:08d}-0002.parquet")
    file.touch()
    lease.release()
    with ps.catalog.lease("work") as now:
        alive = ps.catalog.begin(now, "refresh")
        mine = folder.with_name(f"a{alive:08d}-0001.parquet")
        mine.touch()
        assert attempts.collect(ps.catalog, ps.home, now) == 2
        assert attempts.collect(ps.catalog, ps.home, now) == 0
    assert not folder.exists()
    assert not file.exists()
    assert mine.exists()
