"""Chunks read ahead on a thread of their own, so that receiving, decoding and writing overlap.

At most a few buffers exist, and small chunks wait without one; a caller that is slower than the server fills them, and
then the socket, and then the server waits. Meanwhile the thread goes on telling the server that somebody is here. An
error comes behind the chunks that were read before it.
"""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from contextlib import suppress
from typing import Protocol

from penstock.capture.bulk import Buffer, Chunk, joined
from penstock.capture.kernels.frames import STREAM

_BUFFERS = 3
_TICK = 0.25  # seconds between looks at the clock and at close()
_FLOW = 2 << 20  # bytes a second: some ten thousand rows; one commit a millisecond is a fifth of it
_SMALL = 64 << 10  # bytes of chunks that are put together: to decode two messages costs as much as a hundred
_AHEAD = 64  # small chunks that may wait without a buffer


class Reader(Protocol):
    """Where chunks come from: a WAL sender's stream, or a pull."""

    @property
    def socket(self) -> int:
        """Where the next bytes come; it may be another one after a `fill`."""

    gathering: bool  # whether `fill` shall wait a little for more

    def fill(self, buffer: Buffer) -> Chunk | None:
        """What is there now, without waiting for the first of it."""

    def tick(self) -> None:
        """Called several times a second."""

    @property
    def finished(self) -> bool: ...

    def close(self) -> None: ...


class Feed:
    """Reads `reader` until it has finished, has failed, or is closed."""

    def __init__(self, reader: Reader, name: str) -> None:
        self._reader = reader
        self._free: queue.SimpleQueue[Buffer | None] = queue.SimpleQueue()
        self._chunks: queue.SimpleQueue[Chunk | Exception | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._behind: list[Chunk | Exception | None] = []  # taken from the queue, and to be given next
        self._over: Exception | bool = False
        self._rate, self._read_at = 0.0, time.monotonic()
        for _ in range(_BUFFERS):
            self._free.put(Buffer())
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"penstock-{name}", daemon=True)
        self._thread.start()

    @property
    def finished(self) -> bool:
        """True once the reader has ended and everything it gave was taken."""
        return self._over is True

    def take(self, timeout: float) -> Chunk | None:
        """The next chunk, within `timeout` seconds; give its buffer back when it is decoded."""
        if self._over:
            if isinstance(self._over, Exception):
                raise self._over
            return None
        try:
            item = self._behind.pop() if self._behind else self._next(timeout)
        except queue.Empty:
            return None
        if isinstance(item, Chunk):
            return self._with_more(item)
        self._over = True if item is None else item
        if item is not None:
            raise item
        return None

    def _next(self, timeout: float) -> Chunk | Exception | None:
        return self._chunks.get(timeout=timeout) if timeout > 0 else self._chunks.get_nowait()

    def _with_more(self, first: Chunk) -> Chunk:
        """Together with the small ones that wait behind it, as if they had come at once."""
        found = [first]
        with suppress(queue.Empty):
            while _is_small(found[-1]) and sum(chunk.used for chunk in found) < _SMALL:
                item = self._next(0)
                if not isinstance(item, Chunk) or not _is_small(item):
                    self._behind.append(item)
                    break
                found.append(item)
        if len(found) == 1:
            return first
        whole = joined(found)
        for chunk in found:
            self.give_back(chunk)
        return whole

    def give_back(self, chunk: Chunk) -> None:
        if chunk.buffer is not None:
            chunk.buffer.shrink()
            self._free.put(chunk.buffer)

    def close(self) -> None:
        """Stop reading and leave the server."""
        self._closing.set()
        self._free.put(None)
        os.write(self._wake, b"x")
        self._thread.join()
        self._reader.close()
        os.close(self._wake)
        os.close(self._woken)

    def _run(self) -> None:
        try:
            while not self._closing.is_set() and not self._reader.finished:
                self._read()
            self._chunks.put(None)
        except Exception as error:  # whatever it is, the caller must see it: nobody looks at this thread
            self._chunks.put(error)

    def _read(self) -> None:
        self._reader.tick()
        try:
            buffer = self._free.get(timeout=_TICK)
        except queue.Empty:
            return
        if buffer is None:
            return
        # Under a steady flow, wait for more than a few rows: a chunk costs the same with two or with thousands.
        self._reader.gathering = self._rate > _FLOW
        chunk = self._reader.fill(buffer)
        if chunk is None and not self._reader.finished and self._wait():
            chunk = self._reader.fill(buffer)
        if chunk is None:
            self._free.put(buffer)
        else:
            self._chunks.put(self._without_buffer(chunk))
            self._rate = chunk.used / max(time.monotonic() - self._read_at, 1e-6)
        self._read_at = time.monotonic()

    def _without_buffer(self, chunk: Chunk) -> Chunk:
        """Commits that come one by one while nobody takes any are all read, as long as they are few and small."""
        if not _is_small(chunk) or self._chunks.qsize() >= _AHEAD:
            return chunk
        kept = joined([chunk])
        self.give_back(chunk)
        return kept

    def _wait(self) -> bool:
        ready, _, _ = select.select([self._reader.socket, self._woken], [], [], _TICK)
        return bool(ready)


def _is_small(chunk: Chunk) -> bool:
    """Messages of a stream, and few; a pull's chunk may say where its range ends."""
    return chunk.framing == STREAM and chunk.messages > 0 and chunk.used < _SMALL
