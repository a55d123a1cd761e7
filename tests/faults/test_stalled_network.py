"""A network that swallows everything, and tells nobody, costs a poll a bounded time and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faults.consumer import write
from psycopg import OperationalError
from servers import NO_TRUNCATE

from penstock.capture import PostgresSource, SourceConfig
from penstock.capture.connection import connect, connect_replication

WITHIN = 2  # seconds: the least that libpq takes for connect_timeout


@pytest.fixture
def opened(db: Any, proxy: Any) -> Iterator[Callable[..., PostgresSource]]:
    made: list[PostgresSource] = []

    def open_source(**options: Any) -> PostgresSource:
        options |= {**NO_TRUNCATE, "slot_name": f"stalled_{db.info.dbname}", "snapshot_mode": "never"}
        dsn = f"{proxy.dsn} connect_timeout={WITHIN}"
        made.append(PostgresSource(SourceConfig.from_dsn(dsn, ["events"], **options)))
        made[-1].open()
        return made[-1]

    yield open_source
    for source in made:
        source.close()


def read(source: PostgresSource, seconds: float, until: Any = lambda found: False) -> tuple[list[int], float]:
    """The transactions that came, and how long the longest poll took."""
    found: list[int] = []
    longest, deadline = 0.0, time.monotonic() + seconds
    while time.monotonic() < deadline and not until(found):
        began = time.monotonic()
        batch = source.poll(timeout=0.1)
        longest = max(longest, time.monotonic() - began)
        if batch is not None:
            found += sorted({row["tx"] for row in batch.to_arrow()["public.events"].to_pylist()})
    return found, longest


@pytest.mark.parametrize("reader", ["stream", pytest.param("pull", marks=pytest.mark.since(14, "the pull reader"))])
def test_a_poll_comes_back_and_the_source_connects_again(
    db: Any, proxy: Any, opened: Any, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    monkeypatch.setattr("penstock.capture.vitals._LOOK_EVERY", 0.5)
    source = opened(reader=reader)
    write(db, 1)
    assert read(source, 20, lambda found: found)[0] == [1]
    with proxy.stalled():
        write(db, 2)
        _, longest = read(source, 30, lambda _: source.phase == "reconnecting")
        assert source.phase == "reconnecting"
        began = time.monotonic()
        assert source.health().status == "warning"
        assert time.monotonic() - began < WITHIN + 1
    assert longest < WITHIN + 3
    write(db, 3)
    again, _ = read(source, 20, lambda found: found[-1:] == [3])
    assert again == [2, 3]
    assert source.metrics().reconnects >= 1


def test_a_stream_that_is_silent_is_asked_and_then_given_up(
    db: Any, proxy: Any, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that answers when it is asked is there, however little it has to say."""
    monkeypatch.setattr("penstock.capture.vitals._LOOK_EVERY", 1e9)
    monkeypatch.setattr("penstock.capture.reading._SILENCE", 0.5)
    source = opened()
    read(source, 3)
    assert source.phase == "streaming"
    assert source.metrics().reconnects == 0
    with proxy.stalled():
        read(source, 10, lambda _: source.phase == "reconnecting")
        assert "sent nothing" in source.health().message
    write(db, 1)
    assert read(source, 20, lambda found: found)[0] == [1]


def test_settings_of_the_user_win(source_db: str) -> None:
    with connect(f"{source_db} tcp_user_timeout=7000 keepalives_idle=5 connect_timeout=3") as connection:
        given = connection.info.get_parameters()
        assert (given["tcp_user_timeout"], given["keepalives_idle"]) == ("7000", "5")
        assert connection.connect_timeout == 3
    with connect_replication(source_db) as connection:
        assert connection.info.get_parameters()["tcp_user_timeout"] == "60000"


def test_a_hurried_query_ends_with_its_connection(source_db: str) -> None:
    with connect(f"{source_db} connect_timeout={WITHIN}") as connection:
        connection.hurried()
        with connection.unhurried():
            assert connection.execute("SELECT pg_sleep(%s), 1", [WITHIN + 0.5]).fetchall()[0][1] == 1
        with pytest.raises(OperationalError, match="no answer within 2 s"):
            connection.execute("SELECT pg_sleep(30)")
        assert connection.closed
