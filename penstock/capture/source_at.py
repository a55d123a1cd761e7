"""A source database as it was at one exact LSN: the snapshot that a temporary slot exports with its starting point."""

from __future__ import annotations

import queue
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from psycopg import sql

from penstock.capture.connection import Connection, connect, translated
from penstock.capture.slot import create_slot
from penstock.errors import NoSlotLeft

_JIT = 110000


class SourceAt:
    """Queries see every commit up to `lsn` and none after it, for as long as this is open.

    Up to `workers` threads at once have a transaction each, fewer if the server has no room for more connections. The
    server does not help them with parallel workers of its own: the load is what was asked for.
    """

    def __init__(self, dsn: str, *, timeout: float = 30.0, workers: int = 1) -> None:
        self._slot = create_slot(dsn, f"penstock_at_{secrets.token_hex(4)}", timeout=timeout, temporary=True)
        self.lsn = self._slot.consistent_point
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._connections: list[Connection] = []
        try:
            self._open(dsn, workers)
        except BaseException:
            self.close()
            raise
        self.workers = len(self._connections)
        self.version = self._connections[0].info.server_version

    def _open(self, dsn: str, workers: int) -> None:
        while len(self._connections) < workers:
            try:
                one = connect(dsn, max_parallel_workers_per_gather="0")
            except NoSlotLeft:
                if not self._connections:
                    raise
                return
            if one.info.server_version >= _JIT:  # it would compile each of many short statements
                one.execute("SET jit = off")
            self._connections.append(one)
            self._idle.put(one)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection under the snapshot; its locks go with the block."""
        connection = self._idle.get()
        try:
            with translated():
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self._slot.snapshot)))
            try:
                yield connection
            finally:
                if not connection.closed and not connection.broken:
                    connection.execute("ROLLBACK")
        finally:
            self._idle.put(connection)

    def rows(self, query: sql.Composed | str) -> list[tuple[Any, ...]]:
        with self.transaction() as connection, translated():
            return connection.execute(query).fetchall()

    def close(self) -> None:
        for connection in (*self._connections, self._slot.connection):
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
