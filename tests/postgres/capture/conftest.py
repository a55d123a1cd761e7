"""Sources that close themselves, and a reader that replays what they deliver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from servers import NO_TRUNCATE

from penstock.capture import Batch, PostgresSource, SourceConfig
from penstock.lsn import Lsn

OpenSource = Callable[..., PostgresSource]


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    """The application: a connection in autocommit to the source."""
    with psycopg.connect(source_db, autocommit=True, options="-c extra_float_digits=3") as connection:
        yield connection


@pytest.fixture
def make_source(source_db: str) -> Iterator[OpenSource]:
    """A source on `source_db`, not yet open; closed after the test."""
    made: list[PostgresSource] = []

    def make(*tables: str, slot: str = "", schemas: Any = None, **options: Any) -> PostgresSource:
        slot = slot or "slot_" + source_db.partition("dbname=")[2].split()[0]
        options = {**NO_TRUNCATE, **options}
        config = SourceConfig.from_dsn(source_db, tables or ("public.*",), slot_name=slot, **options)
        made.append(PostgresSource(config, schemas))
        return made[-1]

    yield make
    for source in made:
        source.close()


@dataclass
class Received:
    """Every batch in order."""

    batches: list[Batch] = field(default_factory=list)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found = [row for batch in self.batches for row in batch.to_arrow().get(table, _EMPTY).to_pylist()]
        copied = [(r["_lsn"], r["_seq"]) for r in found if r["_op"] == "R"]
        assert copied == sorted(copied)
        return found

    def state(self, table: str, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The table after all changes; a value the WAL did not carry stays as it was."""
        state: dict[tuple[Any, ...], dict[str, Any]] = {}
        last: dict[str, Any] = {}
        for row in self.rows(table):
            values = {name: value for name, value in row.items() if not name.startswith("_")}
            names = list(values)
            at = tuple(row[name] for name in key)
            if row["_op"] == "T":
                state.clear()
            elif row["_weight"] < 0:
                last = state.pop(at)
            else:
                for position in map(int, filter(None, (row["_absent"] or "").split(","))):
                    values[names[position]] = last[names[position]]
                state[at] = values
        return state


class _Empty:
    def to_pylist(self) -> list[dict[str, Any]]:
        return []


_EMPTY = _Empty()


def drain(source: PostgresSource, received: Received | None = None, *, limit: int = 1024) -> Received:
    """Everything up to the server's position now."""
    received = received or Received()
    target, deadline = source.current_lsn(), time.monotonic() + 60
    while source.checkpoint().lsn < target:
        batch = source.poll(max_records=limit, timeout=0.05)
        if batch is not None:
            received.batches.append(batch)
        assert time.monotonic() < deadline, f"{source.checkpoint().lsn} did not reach {target}"
    return received


@pytest.fixture(name="drain")
def _drain() -> Callable[..., Received]:
    return drain


def confirmed(db: psycopg.Connection[Any], slot: str) -> Lsn:
    row = db.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s", [slot])
    return Lsn.parse(row.fetchone()[0])  # type: ignore[index]


@pytest.fixture(name="confirmed")
def _confirmed() -> Callable[..., Lsn]:
    return confirmed
