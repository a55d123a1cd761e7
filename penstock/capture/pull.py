"""Reading a backlog in bulk: the server's changes as rows of a binary COPY instead of one message each.

The slot itself is not touched. A temporary copy of it is read with `pg_logical_slot_get_binary_changes`, which moves
only the copy: the next range can be decoded on the server while this one is decoded here, nothing waits for anybody
to acknowledge, and a crash leaves nothing behind, because the copy goes with its connection.

Every range begins with decoding from the copy's restart point, which moves only where the log has a record of running
transactions. What lies before the range costs little, because it is not put out, but it must not grow without bound:
a range is never shorter than the way to it. A transaction that reaches past its range would be decoded in every range
again: when one gave nothing and the restart point stayed, the pull is over and the stream goes on.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import replace

import psycopg
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock import failpoint
from penstock.capture.bulk import Buffer, BulkReader, Chunk
from penstock.capture.connection import Connection, connect, translate, translated
from penstock.capture.continuity import check_unmoved
from penstock.capture.kernels.frames import PULL
from penstock.capture.messages import malformed
from penstock.capture.stream import PluginOptions
from penstock.lsn import Lsn

OLDEST = 140000  # the binary form, and cheap copies of slots
_RANGE = 96 << 20  # bytes of WAL
_LAST = 1 << 20  # a remainder that is left to the stream
_HEADER = 19  # of a binary COPY: signature, flags, length of an extension that nobody uses

_COPY_SLOT = "SELECT pg_copy_logical_replication_slot(%s, %s, true)"
_ADVANCE = "SELECT pg_replication_slot_advance(%s, %s)"
_POSITION = """
SELECT confirmed_flush_lsn::text, (confirmed_flush_lsn - restart_lsn)::int8, pg_current_wal_flush_lsn()::text
FROM pg_replication_slots WHERE slot_name = %s
"""


class PullReader:
    """Reads what is flushed behind `start`, range by range up to a megabyte before its end, and then has finished.

    A chunk without messages ends each range and tells how far it reached.
    """

    def __init__(self, dsn: str, slot: str, start: Lsn, options: PluginOptions) -> None:
        self.until = Lsn(0)  # it does not finish before it has come this far
        self.finished = False
        self.oversized = False  # finished because of a transaction that is longer than a range
        self.read_until = start
        self._options = options
        self._copy: BulkReader | None = None
        self._headed = False
        self._messages = 1  # of the range under way; none was empty yet
        self._connection = connect(dsn)
        self.socket = self._connection.pgconn.socket
        self._slot = f"{slot[:48]}_{secrets.token_hex(4)}"
        try:
            with translated():
                self._connection.execute(_COPY_SLOT, [slot, self._slot])
                confirmed, *_ = self._position()
                check_unmoved(slot, confirmed, start)
                if confirmed < start:
                    self._connection.execute(_ADVANCE, [self._slot, str(start)])
            self._next_range()
        except BaseException:
            self._connection.close()
            raise

    def fill(self, buffer: Buffer) -> Chunk | None:
        """What is there of the range under way; the next range is asked for when it has ended."""
        if self._copy is None and not self._begun():
            return None
        assert self._copy is not None
        chunk = self._copy.fill(buffer)
        if chunk is not None:
            return self._framed(chunk)
        if not self._copy.finished:
            return None
        self._end_range()
        return Chunk(buffer.data, buffer.ends, 0, 0, PULL, buffer=buffer, reached=self.read_until)

    def tick(self) -> None:
        """Nothing to tell: the server waits for a COPY's reader as long as its connection lives."""

    def close(self) -> None:
        """Leave; the copy of the slot goes with the connection, also while the server is still decoding."""
        with suppress(psycopg.Error):
            self._connection.pgconn.get_cancel().cancel()
        if self._copy is not None:
            self._copy.close()
        self._connection.close()

    def _position(self) -> tuple[Lsn, int, Lsn]:
        """Read up to here, this far from where decoding begins, and the end of the flushed log."""
        row = self._connection.execute(_POSITION, [self._slot]).fetchone()
        assert row is not None
        return Lsn.parse(row[0]), row[1], Lsn.parse(row[2])

    def _next_range(self) -> None:
        with translated():
            confirmed, behind, flushed = self._position()
            self.read_until = confirmed
            # The flushed log may end inside of a record of an open transaction, and the server would wait for the rest
            # of it, with all that it has decoded: so not up to there. `until` lies before a commit that is flushed.
            end = Lsn(min(confirmed + max(_RANGE, behind), max(flushed - _LAST, min(flushed, self.until))))
            if end <= confirmed:
                self.finished = True
                return
            if behind > _RANGE // 2 and not self._messages:
                self.finished = self.oversized = True
                return
            self._messages = 0
            failpoint.hit("capture.pull_range")
            self._connection.pgconn.send_query(self._command(end).as_bytes(self._connection))
            self._connection.pgconn.flush()
        self._headed = False

    def _command(self, end: Lsn) -> sql.Composed:
        options = replace(self._options, streaming=False, two_phase=False).of(OLDEST)
        options["proto_version"] = "1"
        listed = [sql.Literal(text) for pair in options.items() for text in pair]
        return sql.SQL(
            "COPY (SELECT data FROM pg_logical_slot_get_binary_changes({}, {}, NULL, {})) TO STDOUT (FORMAT binary)"
        ).format(sql.Literal(self._slot), sql.Literal(str(end)), sql.SQL(", ").join(listed))

    def _begun(self) -> bool:
        """Whether the server has begun to send the range."""
        pgconn = self._connection.pgconn
        with translated():
            pgconn.consume_input()
        if pgconn.is_busy():
            return False
        result = pgconn.get_result()
        if result is None or result.status != ExecStatus.COPY_OUT:
            raise malformed("nothing") if result is None else translate(error_from_result(result))
        self._copy = BulkReader(self._connection, gather=True)
        return True

    def _framed(self, chunk: Chunk) -> Chunk:
        start = 0 if self._headed else _HEADER
        self._headed = True
        self._messages += chunk.messages - (int(chunk.ends[chunk.messages - 1]) - start == 2)
        return Chunk(chunk.data, chunk.ends, chunk.messages, chunk.used, PULL, start, chunk.buffer)

    def _end_range(self) -> None:
        while (result := self._connection.pgconn.get_result()) is not None:
            if result.status != ExecStatus.COMMAND_OK:
                raise translate(error_from_result(result))
        self._copy = None
        self._next_range()


def server_is_ahead(connection: Connection, of: Lsn) -> int:
    """Bytes of flushed WAL behind a position."""
    with translated():
        row = connection.execute("SELECT (pg_current_wal_flush_lsn() - %s::pg_lsn)::int8", [str(of)]).fetchone()
    assert row is not None
    return int(row[0])
