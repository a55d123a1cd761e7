"""Where the lake is measured: a source with one table, a home, and Spark, all in a temporary folder.

`fsync` is on. Autovacuum and timed checkpoints of the source are off: they would come at a moment of their own.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

import penstock
from penstock.bench.figure import Figure, seconds
from penstock.bench.scale import scale
from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres

_STEADY = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "16GB"}
ROW = "id bigint PRIMARY KEY, n int, amount numeric(12,2), name text, at timestamptz, note text"
VALUES = "i, (i % 1000)::int, (i % 1000000) / 7.0, 'customer ' || i, clock_timestamp(), md5(i::text)"


@dataclass(frozen=True)
class Ground:
    """One run: the application's connection, the home, and a line of progress with the time."""

    console: Console
    folder: Path
    server: EmbeddedPostgres
    db: psycopg.Connection[Any]
    ps: penstock.Session
    started: float

    @property
    def dsn(self) -> str:
        return self.server.dsn

    def say(self, text: str) -> None:
        passed = time.monotonic() - self.started
        self.console.print(f"{passed:6.1f} s  {text}", highlight=False, soft_wrap=True)

    def make(self, rows: int) -> None:
        """Table `t` with rows 1 to `rows`."""
        self.say(f"{rows:,} rows into PostgreSQL")
        self.db.execute(f"CREATE TABLE t ({ROW})".encode())
        self.insert(1, rows)
        self.db.execute("VACUUM (FREEZE, ANALYZE) t")
        self.db.execute("CHECKPOINT")

    def insert(self, first: int, last: int) -> None:
        self.db.execute(f"INSERT INTO t SELECT {VALUES} FROM generate_series({first}, {last}) i".encode())

    def change_share(self, rows: int, apart: int, turn: int) -> None:
        """One row in `apart`: half updated, a quarter deleted, a quarter inserted; others in each turn."""
        with self.db.transaction():
            self.db.execute(f"UPDATE t SET amount = amount + 1 WHERE id % {2 * apart} = {2 * turn}".encode())
            self.db.execute(f"DELETE FROM t WHERE id % {4 * apart} = {4 * turn + 1}".encode())
            first = 2 * rows + turn * rows
            self.insert(first + 1, first + rows // (4 * apart))


@contextmanager
def ground(console: Console, config: Mapping[str, Any] | None = None) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "source", {**SOURCE_SETTINGS, **_STEADY})
        try:
            with (
                psycopg.connect(server.dsn, autocommit=True) as db,
                penstock.connect(home=Path(folder) / "home", config={"spark_memory": "4g", **(config or {})}) as ps,
            ):
                yield Ground(console, Path(folder), server, db, ps, time.monotonic())
        finally:
            server.stop()


def sized(full: int, least: int = 100) -> int:
    """`full` rows, or fewer in a trial."""
    return max(least, round(full * scale()))


def in_turns(
    contenders: Mapping[str, Callable[[], object]], *, before: Callable[[], object] | None = None, times: int = 3
) -> dict[str, float]:
    """The middle one of several timings of each; they take turns, and `before` runs untimed before each turn."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(times):
        if before is not None:
            before()
        names = list(contenders)
        for name in names if turn % 2 == 0 else reversed(names):  # whoever comes second has warmer caches
            taken[name].append(seconds(contenders[name]))
    return {name: statistics.median(all_) for name, all_ in taken.items()}


def ratio(what: str, ours: float, bare: float, most: float, *, beside: str) -> Figure:
    """Ours as a multiple of the bare work."""
    text = f"{ours:.2f} s: {ours / bare:.2f}× {beside} ({bare:.2f} s)"
    return Figure(what, text, f"≤ {most:g}×", ours <= most * bare)
