"""Reading a backlog in bulk: the server's changes as rows of a binary COPY instead of one message each.

Two temporary copies of the slot take turns. While one sends its range, the server decodes the next one for the other,
so a backlog is read by two server processes and by us; the slot itself is not touched.

Every range begins with decoding from its copy's restart point, which moves only where the log has a record of running
transactions. What lies before the range costs little, because it is not put out, but it must not grow without bound:
a range is never shorter than the way to it. A transaction that reaches past its range would be decoded in every range
again: when one gave nothing and the restart point stayed, the pull is over and the stream goes on.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from penstock.capture.bulk import Buffer, Chunk
from penstock.capture.connection import Connection, translated
from penstock.capture.kernels.frames import PULL
from penstock.capture.slot_copy import SlotCopy
from penstock.capture.stream import PluginOptions
from penstock.errors import NoSlotLeft
from penstock.lsn import Lsn

_RANGE = 192 << 20  # bytes of WAL
_SHORTEST = 16 << 20  # each has a price of its own
_LAST = 1 << 20  # a remainder that is left to the stream, once or, by a server that goes on writing, twice
_FUTILE = 64 << 20  # so long from the restart point without a message: inside of a transaction that a range cannot hold
_COPIES = 2


class PullReader:
    """Reads what is flushed behind `start`, range by range up to a megabyte before its end, and then has finished.

    A chunk without messages ends each range and tells how far it reached.
    """

    def __init__(self, dsn: str, slot: str, start: Lsn, options: PluginOptions) -> None:
        self.gathering = False  # its copies always do
        self.until = Lsn(0)  # it does not finish before it has come this far
        self.finished = False
        self.oversized = False  # finished because of a transaction that is longer than a range
        self._asked_until = start
        self._first = True  # a range is sent once all of it is decoded: that of the first shall not take long
        self._asked: deque[tuple[SlotCopy, Lsn]] = deque()  # with the ends of their ranges, in the order of reading
        self._copies = [SlotCopy(dsn, slot, start, options)]
        try:
            flushed = self._ask(self._copies[0])
            with suppress(NoSlotLeft):  # then one does it all
                while self._asked and len(self._copies) < _COPIES and self._remaining(flushed) > _SHORTEST:
                    self._copies.append(SlotCopy(dsn, slot, start, options))
                    flushed = self._ask(self._copies[-1])
        except BaseException:
            self.close()
            raise
        self.finished = not self._asked

    @property
    def socket(self) -> int:
        """Of the range that is read now."""
        return self._asked[0][0].socket if self._asked else self._copies[0].socket

    def fill(self, buffer: Buffer) -> Chunk | None:
        """What is there of the range under way; when it has ended, the server is asked for more."""
        copy, end = self._asked[0]
        chunk = copy.fill(buffer)
        if chunk is not None or copy.busy:
            return chunk
        self._asked.popleft()
        self.oversized = not copy.messages and end - copy.position().restart > _FUTILE
        for idle in self._copies:
            if not (self.oversized or idle.busy):
                self._ask(idle)
        self.finished = self.oversized or not self._asked
        return Chunk(buffer.data, buffer.ends, 0, 0, PULL, buffer=buffer, reached=end)

    def tick(self) -> None:
        """Nothing to tell: the server waits for a COPY's reader as long as its connection lives."""

    def close(self) -> None:
        for copy in self._copies:
            copy.close()

    def _ask(self, copy: SlotCopy) -> Lsn:
        """For the range behind all others, if there is one; returns how far the log was flushed."""
        here = copy.position()
        remaining = self._remaining(here.flushed)
        enough = remaining < _LAST and not self._first and self._asked_until >= self.until
        if enough or not remaining:
            return here.flushed
        way = self._asked_until - here.restart
        wanted = _SHORTEST if self._first else min(_RANGE, max(remaining // _COPIES, _SHORTEST))
        start, length = self._asked_until, max(wanted, way)
        self._first = False
        self._asked_until = Lsn(start + min(length, remaining))
        copy.ask(start, self._asked_until, here)
        self._asked.append((copy, self._asked_until))
        return here.flushed

    def _remaining(self, flushed: Lsn) -> int:
        """Bytes of WAL that nobody was asked for.

        The flushed log may end inside of a record of an open transaction, and the server would wait for the rest of
        it, with all that it has decoded: so not up to there. `until` lies before a commit that is flushed.
        """
        return max(0, max(flushed - _LAST, min(flushed, self.until)) - self._asked_until)


def server_is_ahead(connection: Connection, of: Lsn) -> int:
    """Bytes of flushed WAL behind a position."""
    with translated():
        row = connection.execute("SELECT (pg_current_wal_flush_lsn() - %s::pg_lsn)::int8", [str(of)]).fetchone()
    assert row is not None
    return int(row[0])
