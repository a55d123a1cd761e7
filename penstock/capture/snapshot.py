"""The initial copy: every table as of one exported snapshot, delivered as parts of one big transaction.

All tables are read in one REPEATABLE READ transaction under the slot's own snapshot, so the copy holds exactly the
commits before the slot's consistent point, and the stream everything from there on. Every table is locked against
DDL while it is copied: a rewritten table would look empty to an older snapshot.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import psycopg
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock.capture.batch import Batch, Stamp, sliced, stamped
from penstock.capture.binary_columns import is_binary
from penstock.capture.bulk import BulkReader, Chunk
from penstock.capture.connection import connect, translate, translated
from penstock.capture.discover import SourceTable
from penstock.capture.fields import BINARY, TEXT, Bytes
from penstock.capture.kernels import frames
from penstock.capture.messages import malformed
from penstock.capture.rows import Rows, copied_rows
from penstock.lsn import Lsn

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"


class SnapshotReader:
    """Copies `tables` one after the other; `finished` once the last part was taken."""

    def __init__(self, dsn: str, snapshot: str, point: Lsn, tables: Mapping[str, SourceTable]) -> None:
        self._point = point
        self._time = time.time_ns() // 1000
        self._todo = deque(tables.values())
        self._copy: _TableCopy | None = None
        self._rows: Rows | None = None
        self._at = 0
        self.copied = 0
        self.finished = False
        self._connection = connect(dsn)
        try:
            with translated():
                self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
                self._connection.execute(_lock_command(tables))
        except BaseException:
            self._connection.close()
            raise

    def take(self, limit: int, timeout: float) -> Batch | None:
        """The next part of at most `limit` rows; None if the server gave nothing within `timeout`."""
        deadline = time.monotonic() + timeout
        while self._rows is None:
            if self._copy is None:
                if not self._todo:
                    self.finished = True
                    return Batch({}, complete=True, cut=self._point, snapshot=True)
                self._copy = _TableCopy(self._connection, self._todo.popleft())
            self._rows = self._copy.read(max(0.0, deadline - time.monotonic()), self.copied)
            self._at = 0
            if self._rows is None:
                if self._copy.finished:
                    self._copy = None
                elif time.monotonic() >= deadline:
                    return None
        return self._part(self._rows, limit)

    def _part(self, rows: Rows, limit: int) -> Batch:
        assert self._copy is not None
        total = len(rows.weights)
        stop = min(self._at + limit, total)
        count = stop - self._at
        stamp = Stamp(np.full(count, int(self._point), np.int64), np.full(count, self._time, np.int64), None)
        table = stamped(self._copy.table, sliced(rows, self._at, stop), stamp)
        self.copied += count
        self._at = stop
        if stop == total:
            self._rows = None
        return Batch({self._copy.table.name: table}, complete=False, cut=Lsn(0), snapshot=True)

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()
        with suppress(psycopg.Error):
            self._connection.close()


class _TableCopy:
    """One COPY … TO STDOUT (FORMAT binary) under way."""

    def __init__(self, connection: psycopg.Connection[tuple[object, ...]], table: SourceTable) -> None:
        self.table = table
        self.finished = False
        self._pgconn = connection.pgconn
        self._formats = formats_of(table)
        self._fields = np.empty((1 << 17, frames.FIELD_WIDTH), np.int64)
        self._headed = False
        result = self._pgconn.exec_(copy_command(table).as_bytes(connection))
        if result.status != ExecStatus.COPY_OUT:
            raise translate(error_from_result(result))
        self._reader = BulkReader(connection)

    def read(self, timeout: float, first_seq: int) -> Rows | None:
        chunk = self._reader.read(timeout)
        if chunk is None:
            if self._reader.finished:
                self._finish()
            return None
        rows = self._frame(chunk)
        if rows == 0:
            return None
        return copied_rows(self.table, chunk.data, rows, self._fields, first_seq)

    def _frame(self, chunk: Chunk) -> int:
        start = 0 if self._headed else _header_length(chunk.data[: chunk.used])
        self._headed = True
        while True:
            rows, code = frames.scan_copy(
                chunk.data, start, chunk.used, len(self._formats), self._fields, self._formats
            )
            if code == frames.MALFORMED:
                raise malformed(f"a COPY row of {self.table.name}")
            if code == frames.OK:
                return int(rows)
            self._fields = np.empty((len(self._fields) * 2, frames.FIELD_WIDTH), np.int64)

    def _finish(self) -> None:
        while (result := self._pgconn.get_result()) is not None:
            if result.status != ExecStatus.COMMAND_OK:
                raise translate(error_from_result(result))
        self.finished = True
        self.close()

    def close(self) -> None:
        self._reader.close()


def formats_of(table: SourceTable) -> Bytes:
    """How each column comes: binary where the kernel knows the form."""
    return np.array(
        [
            BINARY if is_binary(column.arrow, send) else TEXT
            for column, send in zip(table.schema.columns, table.sends, strict=True)
        ],
        np.uint8,
    )


def copy_command(table: SourceTable) -> sql.Composed:
    """format('%s') is the type's output function, as the WAL has it; a cast to text is not (inet, bpchar, bool)."""
    as_text = sql.SQL("CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END")
    columns = [
        sql.Identifier(name) if format == BINARY else as_text.format(sql.Identifier(name))
        for name, format in zip(table.schema.names, formats_of(table), strict=True)
    ]
    return sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT (FORMAT binary)").format(
        sql.SQL(", ").join(columns), sql.Identifier(table.schema_name, table.table_name)
    )


def _lock_command(tables: Mapping[str, SourceTable]) -> sql.Composed:
    names = [sql.Identifier(table.schema_name, table.table_name) for table in tables.values()]
    listed = sql.SQL(", ").join(sql.SQL("ONLY {}").format(name) for name in names)
    return sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(listed)


def _header_length(data: Bytes) -> int:
    head = data[:19].tobytes()
    if len(head) < 19 or not head.startswith(_SIGNATURE):
        raise malformed("a COPY without its header")
    return 19 + int.from_bytes(head[15:19], "big")
