"""The initial copy into a home beside COPY … TO STDOUT (FORMAT binary) to nowhere, on as many connections.

How many connections the copy uses is seen on the server while it runs; the plain COPY then gets as many, each with
its share of the table's pages.
"""

from __future__ import annotations

import statistics
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql

from penstock.bench.capture import contenders, tables
from penstock.bench.capture.ground import Database, Ground, expect
from penstock.bench.figure import Figure, seconds
from penstock.capture.connection import connect

_ROWS, _TURNS, _LEAST = 5_000_000, 3, 0.5  # registering a source takes half a second, whatever its size
_COPIES = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query ILIKE 'copy%%'
"""


class _Watch:
    """Counts the connections that copy at the same time, every 10 ms."""

    def __init__(self, dsn: str) -> None:
        self.most = 1
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._connection.close()

    def _look(self) -> None:
        while not self._done.wait(0.01):
            row = self._connection.execute(_COPIES).fetchone()
            assert row is not None
            self.most = max(self.most, int(row[0]))


def figures(ground: Ground) -> list[Figure]:
    rows, turns = ground.rows(_ROWS), ground.times(_TURNS)
    with ground.database("copies") as source:
        ground.say(f"copy of {rows:,} rows: making them")
        source.execute(f"CREATE TABLE t ({tables.NARROW})")
        source.execute(tables.insert("t", tables.NARROW_ROW, 1, rows))
        source.db.execute("VACUUM (FREEZE, ANALYZE) t")
        source.settle_down()
        with _Watch(source.dsn) as watch:
            _copy_home(ground, source, "copy_0", rows)
        ours, plain = [], []
        for turn in range(turns):
            plain.append(rows / seconds(lambda: copy_plain(source, watch.most, rows)))
            ours.append(rows / _copy_home(ground, source, f"copy_{turn + 1}", rows))
            ground.say(f"  plain {plain[-1]:,.0f} rows/s, to segments {ours[-1]:,.0f} rows/s")
    limit, rate = statistics.median(plain), statistics.median(ours)
    what, on = f"copy of {rows:,} rows", f"on {watch.most} connection{'s' if watch.most > 1 else ''}"
    return [
        Figure(f"{what}: COPY to nowhere", f"{limit:,.0f} rows/s {on}"),
        Figure(
            f"{what}: to durable segments",
            f"{rate:,.0f} rows/s {on}: {rate / limit:.2f} of it",
            f"≥ {_LEAST:g}",
            rate >= _LEAST * limit,
        ),
    ]


def _copy_home(ground: Ground, source: Database, name: str, rows: int) -> float:
    """Seconds from registering the source until its copy is durable."""
    taken = seconds(lambda: ground.captures.add(name, source.dsn, ["public.t"], {}))
    expect("rows copied", contenders.rows_at_home(ground, name), rows)
    ground.captures.remove(name)
    return taken


def copy_plain(source: Database, connections: int, rows: int) -> None:
    row = source.db.execute("SELECT pg_relation_size('t') / current_setting('block_size')::int").fetchone()
    assert row is not None
    pages = [int(row[0]) * part // connections for part in range(connections + 1)]
    ranges = list(zip(pages[:-1], [*pages[1:-1], 2**32 - 1], strict=True))
    commands = [_command(low, high) for low, high in ranges] if connections > 1 else [_WHOLE]
    with ThreadPoolExecutor(connections) as pool:
        messages = sum(pool.map(lambda command: _read(source.dsn, command), commands))
    expect("rows of the plain COPY", messages >= rows, True)


_WHOLE = sql.SQL("COPY t TO STDOUT (FORMAT binary)")


def _command(low: int, high: int) -> sql.Composed:
    return sql.SQL("COPY (SELECT * FROM t WHERE ctid >= {} AND ctid < {}) TO STDOUT (FORMAT binary)").format(
        sql.Literal(f"({low},0)"), sql.Literal(f"({high},0)")
    )


def _read(dsn: str, command: sql.Composed | sql.SQL) -> int:
    counts: list[int] = []
    with connect(dsn, search_path="public") as connection:
        contenders.read_copy(connection, command, counts.append)
    return sum(counts)
