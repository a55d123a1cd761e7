"""A temporary copy of a slot, on a connection of its own, read range by range as a binary COPY.

`pg_logical_slot_get_binary_changes` moves the copy only. Nothing waits for anybody to acknowledge, and a crash leaves
nothing behind, because the copy goes with its connection.

A range ends with the record that reaches or crosses its end, and one that starts at the same LSN leaves out what was
committed by a record that begins before it: two copies that meet at an LSN miss nothing and repeat nothing.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace

import psycopg
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock import failpoint
from penstock.capture.bulk import Buffer, BulkReader, Chunk
from penstock.capture.connection import connect, translate, translated
from penstock.capture.continuity import check_unmoved
from penstock.capture.kernels.frames import PULL
from penstock.capture.messages import malformed
from penstock.capture.stream import PluginOptions
from penstock.lsn import Lsn

OLDEST = 140000  # the binary form, and cheap copies of slots
_HEADER = 19  # of a binary COPY: signature, flags, length of an extension that nobody uses
# The server holds a decoded range in memory up to this, and otherwise in a file, which costs a tenth of the decoding.
# The longest range of rows with 30 columns fits. Decoding itself may take logical_decoding_work_mem beside it.
_ROOM = "256MB"
_LEAVE = 2.0  # seconds for the server to be told that nobody reads any more
_ENDED = {ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK}

_COPY_SLOT = "SELECT pg_copy_logical_replication_slot(%s, %s, true)"
# The server makes readers of a failover slot wait for the standbys that it names, but not those of a copy of one. One
# that it names and that is not there holds back everything.
_POSITION = """
WITH standbys AS (
  SELECT COALESCE(p.restart_lsn, '0/0') AS lsn
  FROM unnest(string_to_array(NULLIF(current_setting('synchronized_standby_slots', true), ''), ',')) AS listed(name)
  LEFT JOIN pg_replication_slots p ON p.slot_name::text = btrim(listed.name, ' "'))
SELECT s.confirmed_flush_lsn::text, s.restart_lsn::text,
       CASE WHEN (SELECT (to_jsonb(o) ->> 'failover')::bool FROM pg_replication_slots o WHERE o.slot_name = %(of)s)
            THEN LEAST(pg_current_wal_flush_lsn(), (SELECT min(lsn) FROM standbys))
            ELSE pg_current_wal_flush_lsn() END::text
FROM pg_replication_slots s WHERE s.slot_name = %(name)s
"""
_ADVANCE = sql.SQL("SELECT pg_replication_slot_advance({}, {}); ")
_CHANGES = sql.SQL(
    "COPY (SELECT data FROM pg_logical_slot_get_binary_changes({}, {}, NULL, {})) TO STDOUT (FORMAT binary)"
)


@dataclass(frozen=True)
class Position:
    """Where a copy stands, what it decodes from, and how far the log may be read: it is flushed, here and on the
    standbys that must not fall behind."""

    confirmed: Lsn
    restart: Lsn
    flushed: Lsn


class SlotCopy:
    """Copies `slot`, which must not have passed `start`. One range at a time: `ask`, then `fill` until it is None
    and `busy` is False."""

    def __init__(self, dsn: str, slot: str, start: Lsn, options: PluginOptions) -> None:
        self.messages = 0  # of the range under way, or of the last one
        self._options = replace(options, streaming=False, two_phase=False).of(OLDEST) | {"proto_version": "1"}
        self._copy: BulkReader | None = None
        self._headed = False
        self.busy = False
        self._connection = connect(dsn, work_mem=_ROOM).hurried()
        self.socket = self._connection.pgconn.socket
        self._slot = slot
        self._name = f"{slot[:48]}_{secrets.token_hex(4)}"
        try:
            with translated():
                self._connection.execute(_COPY_SLOT, [slot, self._name])
            check_unmoved(slot, self.position().confirmed, start)
        except BaseException:
            self._connection.close()
            raise

    def position(self) -> Position:
        with translated():
            row = self._connection.execute(_POSITION, {"name": self._name, "of": self._slot}).fetchone()
        assert row is not None
        return Position(*map(Lsn.parse, row))

    def ask(self, start: Lsn, end: Lsn, here: Position) -> None:
        """Have the server decode what was committed after `start`, up to `end`."""
        failpoint.hit("capture.pull_range")
        options = [sql.Literal(text) for pair in self._options.items() for text in pair]
        name = sql.Literal(self._name)
        command = _CHANGES.format(name, sql.Literal(str(end)), sql.SQL(", ").join(options))
        if here.confirmed < start:  # reads the log without decoding it
            command = _ADVANCE.format(name, sql.Literal(str(start))) + command
        with translated():
            self._connection.pgconn.send_query(command.as_bytes(self._connection))
            self._connection.pgconn.flush()
        self.messages, self._headed, self.busy = 0, False, True

    def fill(self, buffer: Buffer) -> Chunk | None:
        """What is there of the range under way."""
        if not self.busy or (self._copy is None and not self._begun()):
            return None
        assert self._copy is not None
        chunk = None if self._copy.finished else self._copy.fill(buffer)
        if chunk is not None:
            return self._framed(chunk)
        if self._copy.finished:
            self._end()
        return None

    def close(self) -> None:
        """Leave; the copy goes with the connection, also while the server is still decoding."""
        with suppress(psycopg.Error):
            self._connection.cancel_safe(timeout=_LEAVE)  # libpq's own would wait as long as the network does
        if self._copy is not None:
            self._copy.close()
        self._connection.close()

    def _begun(self) -> bool:
        """Whether the server has begun to send the range."""
        pgconn = self._connection.pgconn
        with translated():
            pgconn.consume_input()
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                raise malformed("nothing")
            if result.status == ExecStatus.COPY_OUT:
                self._copy = BulkReader(self._connection, gather=True)
                return True
            if result.status not in _ENDED:
                raise translate(error_from_result(result))
        return False

    def _framed(self, chunk: Chunk) -> Chunk:
        start = 0 if self._headed else _HEADER
        self._headed = True
        self.messages += chunk.messages - (int(chunk.ends[chunk.messages - 1]) - start == 2)
        return Chunk(chunk.data, chunk.ends, chunk.messages, chunk.used, PULL, start, chunk.buffer)

    def _end(self) -> None:
        """The range is over when the server has said so. Asked for earlier, its word is waited for, and nothing else of
        this process runs meanwhile, not even a time-out."""
        pgconn = self._connection.pgconn
        with translated():
            pgconn.consume_input()
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                self._copy, self.busy = None, False
                return
            if result.status not in _ENDED:
                raise translate(error_from_result(result))
