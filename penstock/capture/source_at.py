"""A source database as it was at one exact LSN: the snapshot that a temporary slot exports with its starting point."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from psycopg import sql

from penstock.capture.connection import connect, translated
from penstock.capture.slot import create_slot

_CHUNK = 10_000


class SourceAt:
    """Queries see every commit up to `lsn` and none after it, for as long as this is open."""

    def __init__(self, dsn: str, *, timeout: float = 30.0) -> None:
        self._slot = create_slot(dsn, f"penstock_at_{secrets.token_hex(4)}", timeout=timeout, temporary=True)
        self.lsn = self._slot.consistent_point
        try:
            self._connection = connect(dsn)
            with translated():
                self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._connection.execute(
                    sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(self._slot.snapshot))
                )
        except BaseException:
            self._slot.connection.close()
            raise

    def rows(self, query: sql.Composed | str) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, fetched as they are read."""
        with translated(), self._connection.cursor(name=f"penstock_{secrets.token_hex(4)}") as cursor:
            cursor.itersize = _CHUNK
            cursor.execute(query)
            yield from cursor

    def close(self) -> None:
        self._connection.close()
        self._slot.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
