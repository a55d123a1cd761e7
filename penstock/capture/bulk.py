"""CopyData of one connection in chunks, waiting at the socket only here.

A chunk's bytes are valid until the next read. A message larger than the buffer makes the buffer larger.
"""

from __future__ import annotations

import select
from dataclasses import dataclass

import numpy as np

from penstock.capture.connection import Connection
from penstock.capture.fields import Bytes, Ints
from penstock.capture.kernels import libpq
from penstock.errors import SourceUnreachable

_BUFFER, _MESSAGES = 8 << 20, 1 << 16


@dataclass(frozen=True)
class Chunk:
    data: Bytes
    ends: Ints  # where each message ends
    messages: int
    used: int


class BulkReader:
    """Reads a connection that is in COPY OUT or COPY BOTH state."""

    def __init__(self, connection: Connection) -> None:
        self._pgconn = connection.pgconn
        self._pointer: int = self._pgconn.pgconn_ptr  # type: ignore[attr-defined]  # not in the protocol class
        self._buffer = np.empty(_BUFFER, np.uint8)
        self._ends = np.empty(_MESSAGES, np.int64)
        self._held = np.zeros(2, np.int64)
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        self._code = libpq.WOULD_BLOCK
        self.finished = False

    def read(self, timeout: float) -> Chunk | None:
        """The messages that are there, or that come within `timeout` seconds; None if none did or the copy ended."""
        chunk = self._fill()
        if chunk is None and not self.finished and timeout > 0 and self._poll.poll(timeout * 1000):
            chunk = self._fill()
        return chunk

    def _fill(self) -> Chunk | None:
        if self._code in (libpq.DONE, libpq.FAILED):  # libpq says so once, perhaps behind the last messages
            self._stopped()
            return None
        length = int(self._held[libpq.HELD_LENGTH]) if self._held[libpq.HELD_POINTER] else 0
        if length > self._buffer.size:
            self._buffer = np.empty(length, np.uint8)
        messages, used, self._code = libpq.fill(self._pointer, self._buffer, self._ends, self._held)
        if messages:
            return Chunk(self._buffer, self._ends, messages, used)
        return None if self._code == libpq.WOULD_BLOCK else self._fill()

    def _stopped(self) -> None:
        if self._code == libpq.FAILED:
            raise self._lost()
        self.finished = True

    def _lost(self) -> SourceUnreachable:
        message = self._pgconn.get_error_message().strip() or "no reason given"
        return SourceUnreachable(
            f"the connection to the source was lost: {message}",
            hint="Open the source again from its checkpoint; nothing was skipped.",
        )

    def close(self) -> None:
        libpq.release(self._held)
