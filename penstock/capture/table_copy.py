"""One `COPY … TO STDOUT (FORMAT binary)` under way: rows in full buffers, the waiting done without the GIL."""

from __future__ import annotations

import select
from collections.abc import Callable

import numpy as np
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock.capture.binary_columns import is_binary
from penstock.capture.connection import Connection, translate
from penstock.capture.discover import SourceTable
from penstock.capture.fields import BINARY, TEXT, Bytes
from penstock.capture.kernels import frames, libpq
from penstock.capture.messages import malformed
from penstock.capture.rows import Rows, copied_rows
from penstock.capture.selection import where
from penstock.errors import FormChanged, SourceUnreachable

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_BUFFER = 4 << 20
_MESSAGES = 1 << 16
_TICK_MS = 100  # how soon a reader notices that it shall stop
_PATIENCE_MS = 5  # that it gives the server before it looks


class Stopped(Exception):
    """The reader was told to stop; nothing is wrong."""


class TableCopy:
    """`read` gives the rows in order, None at the end. After an error it is done for; after FormChanged, it alone."""

    def __init__(self, connection: Connection, table: SourceTable, command: sql.Composed) -> None:
        self.table = table
        self.bytes = 0
        self._pgconn = connection.pgconn
        self._pointer: int = self._pgconn.pgconn_ptr  # type: ignore[attr-defined]  # not in the protocol class
        self._formats = formats_of(table)
        self._buffer = np.empty(_BUFFER, np.uint8)
        self._ends = np.empty(_MESSAGES, np.int64)
        self._held = np.zeros(2, np.int64)
        self._rows = np.empty((1 << 14, frames.COPIED_WIDTH), np.int64)
        self._headed = self._finished = False
        result = self._pgconn.exec_(command.as_bytes(connection))
        if result.status != ExecStatus.COPY_OUT:
            raise translate(error_from_result(result))
        self._awaited = libpq.awaited(self._pgconn.socket)
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)

    def read(self, first_seq: int, stopped: Callable[[], bool]) -> Rows | None:
        """The next rows, a buffer full where the copy has as many; raises `Stopped` when told to."""
        while not self._finished:
            used = self._fill(stopped)
            self.bytes += used
            rows = self._frame(used) if used else 0
            if rows:
                try:
                    return copied_rows(self.table, self._buffer, self._rows[:rows], self._formats, first_seq)
                except FormChanged:
                    self.drain(stopped)
                    raise
        return None

    def drain(self, stopped: Callable[[], bool]) -> None:
        """Pass over the rest: the connection, and the snapshot it has, can be used for another copy."""
        while not self._finished:
            self._fill(stopped)

    def _fill(self, stopped: Callable[[], bool]) -> int:
        used = 0
        while True:
            if stopped():
                self.close()
                raise Stopped
            if not used and self._held[libpq.HELD_POINTER] and self._held[libpq.HELD_LENGTH] > self._buffer.size:
                self._buffer = np.empty(int(self._held[libpq.HELD_LENGTH]), np.uint8)
            messages, count, code = libpq.fill(
                self._pointer, self._buffer[used:], self._ends, self._held,
                self._awaited, self._buffer.size, _PATIENCE_MS,
            )  # fmt: skip
            used += int(count)
            if code == libpq.WOULD_BLOCK:
                self._poll.poll(_TICK_MS)
            elif code == libpq.DONE:
                self._finish()
                return used
            elif code == libpq.FAILED:
                raise self._lost()
            elif messages < len(self._ends):  # the buffer is full, not the list of messages
                return used

    def _frame(self, used: int) -> int:
        start = 0 if self._headed else _header_length(self._buffer[:used])
        self._headed = True
        while True:
            rows, code = frames.scan_copy(self._buffer, start, used, len(self._formats), self._rows)
            if code == frames.MALFORMED:
                raise malformed(f"a COPY row of {self.table.name}")
            if code == frames.OK:
                return int(rows)
            self._rows = np.empty((len(self._rows) * 2, frames.COPIED_WIDTH), np.int64)

    def _finish(self) -> None:
        self._finished = True
        self.close()
        while (result := self._pgconn.get_result()) is not None:
            if result.status != ExecStatus.COMMAND_OK:
                raise translate(error_from_result(result))

    def _lost(self) -> SourceUnreachable:
        message = self._pgconn.get_error_message().strip() or "no reason given"
        return SourceUnreachable(
            f"the connection was lost while {self.table.name} was copied: {message}",
            hint="Open the source again; what was copied whole is kept.",
        )

    def close(self) -> None:
        libpq.release(self._held)


def formats_of(table: SourceTable) -> Bytes:
    """How each column comes: binary where the kernel knows the form."""
    return np.array(
        [
            BINARY if is_binary(column.arrow, send) else TEXT
            for column, send in zip(table.schema.columns, table.sends, strict=True)
        ],
        np.uint8,
    )


def copy_command(table: SourceTable, condition: sql.Composable | None = None) -> sql.Composed:
    """COPY of the captured rows that `condition` holds for."""
    select_rows = sql.SQL("SELECT {} FROM {} t WHERE {} AND {}").format(
        sql.SQL(", ").join(selected(table)), from_table(table), where(table), condition or sql.SQL("true")
    )
    return sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(select_rows)


def selected(table: SourceTable) -> list[sql.Composable]:
    """The columns of `t`; format('%s') is the type's output function, as the WAL has it.

    A cast to text is not (inet, bpchar, bool).
    """
    as_text = sql.SQL("CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END")
    return [
        sql.Identifier("t", name) if form == BINARY else as_text.format(sql.Identifier("t", name))
        for name, form in zip(table.schema.names, formats_of(table), strict=True)
    ]


def from_table(table: SourceTable) -> sql.Composed:
    """ONLY: an inheritance child is a table of its own. A partitioned table has its rows in its partitions."""
    only = sql.SQL("" if table.partitioned else "ONLY ")
    return only + sql.Identifier(table.schema_name, table.table_name)


def _header_length(data: Bytes) -> int:
    head = data[:19].tobytes()
    if len(head) < 19 or not head.startswith(_SIGNATURE):
        raise malformed("a COPY without its header")
    return 19 + int.from_bytes(head[15:19], "big")
