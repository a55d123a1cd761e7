"""CopyData of one connection in chunks, waiting at the socket only here.

A chunk's bytes are valid until its buffer is read into again. A message larger than the buffer makes it larger.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.capture.connection import Connection
from penstock.capture.fields import Bytes, Ints
from penstock.capture.kernels import libpq
from penstock.capture.kernels.frames import STREAM
from penstock.errors import SourceUnreachable

_BUFFER, _MESSAGES = 16 << 20, 1 << 16
_ENOUGH, _PATIENCE = 12 << 20, 5  # bytes, milliseconds
# A WAL sender sends every row by itself, and its socket holds some 280 of them: it is emptied in this rhythm, and so
# seldom that server and reader need not wake each other for each row.
_STEADY_ENOUGH, _STEADY_PAUSE, _STEADY_LONGEST = 512 << 10, 0.0005, 0.02  # bytes, seconds, seconds


class Buffer:
    """Room for the messages of one chunk."""

    def __init__(self) -> None:
        self.data: Bytes = np.empty(_BUFFER, np.uint8)
        self.ends: Ints = np.empty(_MESSAGES, np.int64)

    def hold(self, length: int) -> None:
        """Make room for a message of `length`; what was in it is lost."""
        if length > self.data.size:
            self.data = np.empty(length, np.uint8)

    def shrink(self) -> None:
        """Room for an ordinary chunk again, once what was in it has been used."""
        if self.data.size > _BUFFER:
            self.data = np.empty(_BUFFER, np.uint8)


@dataclass(frozen=True)
class Chunk:
    """Messages, each from the end of the one before; the first begins at `start`."""

    data: Bytes
    ends: Ints
    messages: int
    used: int
    framing: int = STREAM
    start: int = 0
    buffer: Buffer | None = None
    reached: int = 0  # everything up to this LSN has been read, as a keepalive says it


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """The messages of several chunks of a stream, in room of their own."""
    before = np.cumsum([0, *(chunk.used for chunk in chunks)])
    data = np.concatenate([chunk.data[: chunk.used] for chunk in chunks])
    ends = [chunk.ends[: chunk.messages] + start for chunk, start in zip(chunks, before[:-1], strict=True)]
    return Chunk(data, np.concatenate(ends), sum(chunk.messages for chunk in chunks), int(before[-1]))


class BulkReader:
    """Reads a connection that is in COPY OUT or COPY BOTH state.

    With `gather`, a chunk waits a moment for more: a socket holds some hundred rows, and every chunk costs the same.
    """

    def __init__(self, connection: Connection, *, gather: bool = False) -> None:
        self._enough = _ENOUGH if gather else 0
        self._pgconn = connection.pgconn
        self._pointer: int = self._pgconn.pgconn_ptr  # type: ignore[attr-defined]  # not in the protocol class
        self._own = Buffer()
        self._held = np.zeros(2, np.int64)
        self.socket = self._pgconn.socket
        self._awaited = libpq.awaited(self.socket)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self._code = libpq.WOULD_BLOCK
        self.finished = False
        self.gathering = False  # looks at the socket now and then, until there is something to decode

    def read(self, timeout: float) -> Chunk | None:
        """The messages that are there, or that come within `timeout` seconds; None if none did or the copy ended."""
        chunk = self.fill(self._own)
        if chunk is None and not self.finished and timeout > 0 and self._poll.poll(timeout * 1000):
            chunk = self.fill(self._own)
        return chunk

    def fill(self, buffer: Buffer) -> Chunk | None:
        """The messages that are there now."""
        messages = used = 0
        started = time.monotonic()
        while self._code not in (libpq.DONE, libpq.FAILED):  # libpq says so once, perhaps behind the last messages
            if self._held[libpq.HELD_POINTER] and not messages:
                buffer.hold(int(self._held[libpq.HELD_LENGTH]))
            more, size, self._code = libpq.fill(
                self._pointer, buffer.data[used:], buffer.ends[messages:], self._held,
                self._awaited, self._enough, _PATIENCE,
            )  # fmt: skip
            buffer.ends[messages : messages + more] += used
            messages, used = messages + more, used + size
            if self._code == libpq.WOULD_BLOCK and used and self._looks_again(used, size, started):
                continue
            if messages or self._code == libpq.WOULD_BLOCK:
                break
        if messages:
            return Chunk(buffer.data, buffer.ends, messages, used, buffer=buffer)
        if self._code != libpq.WOULD_BLOCK:
            self._stopped()
        return None

    def _looks_again(self, used: int, last: int, started: float) -> bool:
        """Whether to look again, a moment later; `last` is what the last look gave."""
        again = self.gathering and last > 0 and used < _STEADY_ENOUGH
        if again := again and time.monotonic() - started < _STEADY_LONGEST:
            time.sleep(_STEADY_PAUSE)
        return again

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
