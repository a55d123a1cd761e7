"""A slot moves although nobody writes to its tables: a small logical message where other tables fill the WAL.

PostgreSQL lets a slot pass WAL only up to a commit that was acknowledged or a position the server announced. On a quiet
connection its keepalives do that; where they do not come in time, a transactional message is a commit of our own.
Before 15 it is delivered; later servers pass over a transaction without a row for us, and are asked how far they have
read. Either is acknowledged, and takes the slot along. Nothing is written while the whole server is idle.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from psycopg import errors as pg

from penstock.capture.connection import Connection, translated
from penstock.lsn import Lsn

_WORTH = 1 << 16  # bytes of WAL by others that justify a message of our own
_STATE = "SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn()::text END"


@dataclass
class ServerHeartbeat:
    """Decides, at most every `interval` seconds, whether the server needs a message; `problem` says why it cannot."""

    interval: float
    enabled: bool = True
    sent: int = 0
    problem: str | None = None
    _at: Lsn = field(default_factory=lambda: Lsn(0))
    _due: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._due = time.monotonic() + self.interval

    def is_due(self) -> bool:
        return self.enabled and self.problem is None and time.monotonic() >= self._due

    def needs_message(self, confirmed: Lsn, server: Lsn) -> bool:
        """The slot stands where it stood an interval ago, and the server has written a good deal past it."""
        stuck = confirmed <= self._at
        self._at = confirmed
        self._due = time.monotonic() + self.interval
        return stuck and server - confirmed > _WORTH

    def beat(self, connection: Connection, confirmed: Lsn) -> bool:
        """Look at the server, and write the message if it is needed; True if one was written."""
        with translated():
            row = connection.execute(_STATE).fetchone()
        assert row is not None
        recovering, position = row
        if recovering:
            self.problem = "the server is a standby, where nothing can be written"
            return False
        return self.needs_message(confirmed, Lsn.parse(position)) and self._emit(connection)

    def _emit(self, connection: Connection) -> bool:
        try:
            with translated():
                try:
                    connection.execute("SELECT pg_logical_emit_message(true, 'penstock', '')")
                except (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction) as error:
                    self.problem = str(error).strip()
                    return False
        finally:
            self._due = time.monotonic() + self.interval
        self.sent += 1
        return True
