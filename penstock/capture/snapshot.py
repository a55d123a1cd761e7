"""The initial copy: every table as of one exported snapshot, delivered as parts of one big transaction.

All connections read under the slot's own snapshot, so the copy holds exactly the commits before the slot's consistent
point, and the stream everything from there on. Memory is bounded: threads that are ahead of the caller wait.

A value that its column's form cannot hold starts that table's copy again, under the same snapshot, in forms that hold
all values: what the caller has of the table is taken back by a TRUNCATE first. The stream begins after the copy, so it
has only the new forms.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.capture.batch import Batch, Stamp, sliced, stamped
from penstock.capture.connection import Connection
from penstock.capture.copy_pool import CopyPool, Job
from penstock.capture.copy_ranges import CopyRange, TableSize
from penstock.capture.discover import SourceTable
from penstock.capture.rows import Rows, truncated_rows
from penstock.capture.table_copy import Stopped, TableCopy, copy_command
from penstock.errors import FormChanged
from penstock.lsn import Lsn

_AHEAD = 2  # parts per connection that may wait for the caller


@dataclass(frozen=True)
class CopyProgress:
    """How far the copy of a table is; the totals are the server's estimates."""

    table: str
    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int


@dataclass(frozen=True)
class _Part:
    table: SourceTable
    rows: Rows
    takes_back: bool = False


LookAgain = Callable[[Connection, SourceTable], SourceTable]  # a table in forms that hold what the connection sees


class SnapshotReader:
    """Copies `ranges` on all `connections` at once; `finished` once the last part was taken.

    With `anew`, rows that the caller may have of an earlier copy are taken back first, by a TRUNCATE of every table.
    """

    def __init__(
        self,
        connections: list[Connection],
        point: Lsn,
        tables: Mapping[str, SourceTable],
        ranges: Sequence[CopyRange],
        sizes: Mapping[str, TableSize],
        look_again: LookAgain,
        *,
        anew: bool = False,
    ) -> None:
        self._point = point
        self._time = time.time_ns() // 1000
        self.tables = dict(tables)
        self._ranges = ranges
        self._look_again = look_again
        self._restarting = threading.Lock()
        self._sizes = sizes
        self._first = [_Part(table, truncated_rows(table)) for table in tables.values()] if anew else []
        self._parts: queue.Queue[_Part] = queue.Queue(len(connections) * _AHEAD)
        self._pool = CopyPool(connections)
        self._started = False
        self._part: _Part | None = None
        self._at = 0
        self._rows: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._delivered: Counter[str] = Counter()
        self.copied = 0
        self.finished = False

    def take(self, limit: int, timeout: float) -> Batch | None:
        """The next part of at most `limit` rows; None if the server gave nothing within `timeout`."""
        if not self._started:
            self._started = True
            self._pool.start([job for table in self.tables.values() for job in self._jobs(table)])
        if self._part is None:
            self._part = self._first.pop(0) if self._first else self._next(time.monotonic() + timeout)
            self._at = 0
        if self._part is not None:
            return self._cut(self._part, limit)
        if not self.finished:
            return None
        return Batch({}, complete=True, cut=self._point, snapshot=True)

    def progress(self) -> dict[str, CopyProgress]:
        """By table; rows and bytes are those the server has sent."""
        return {
            name: CopyProgress(name, self._rows[name], self._bytes[name], size.rows, size.bytes)
            for name, size in self._sizes.items()
        }

    def close(self) -> None:
        self._pool.close()

    def _next(self, deadline: float) -> _Part | None:
        while True:
            idle = self._pool.idle()  # before looking: what comes after the last part cannot be missed
            try:
                part = self._parts.get(timeout=0 if idle else min(0.02, max(0.001, deadline - time.monotonic())))
                if self._is_wanted(part):
                    return part
            except queue.Empty:
                if idle:
                    self.finished = True
                    return None
                if time.monotonic() >= deadline:
                    return None

    def _is_wanted(self, part: _Part) -> bool:
        """Not of a copy that started again, and not a TRUNCATE of nothing."""
        return not self._is_outdated(part.table) and (not part.takes_back or self._delivered[part.table.name] > 0)

    def _cut(self, part: _Part, limit: int) -> Batch:
        total = len(part.rows.weights)
        stop = min(self._at + limit, total)
        count = stop - self._at
        stamp = Stamp(np.full(count, int(self._point), np.int64), np.full(count, self._time, np.int64), None)
        seqs = np.arange(self.copied, self.copied + count, dtype=np.int64)
        rows = replace(sliced(part.rows, self._at, stop), seqs=seqs)
        self.copied += count
        self._at = stop
        if stop == total:
            self._part = None
        table = part.table
        self._delivered[table.name] += count
        tables, shapes = {table.name: stamped(table, rows, stamp)}, {table.name: table}
        return Batch(tables, complete=False, cut=Lsn(0), snapshot=True, shapes=shapes)

    def _jobs(self, table: SourceTable) -> list[Job]:
        return [self._job(table, one) for one in self._ranges if one.table == table.name]

    def _job(self, table: SourceTable, one: CopyRange) -> Job:
        def run(connection: Connection, stopped: Callable[[], bool]) -> None:
            if self._is_outdated(table):
                return
            copy = TableCopy(connection, table, copy_command(table, one.condition()))
            try:
                self._copy(table, copy, stopped)
            except FormChanged as misfit:
                self._start_again(connection, table, misfit, stopped)

        return run

    def _copy(self, table: SourceTable, copy: TableCopy, stopped: Callable[[], bool]) -> None:
        before = 0
        while (rows := copy.read(0, stopped)) is not None:
            if self._is_outdated(table):
                copy.drain(stopped)
                return
            self._rows[table.name] += len(rows.weights)
            self._bytes[table.name] += copy.bytes - before
            before = copy.bytes
            self._put(_Part(table, rows), stopped)

    def _is_outdated(self, table: SourceTable) -> bool:
        return self.tables[table.name] is not table

    def _start_again(
        self, connection: Connection, table: SourceTable, misfit: FormChanged, stopped: Callable[[], bool]
    ) -> None:
        """Look at all values under the snapshot: no later one can fail to fit."""
        with self._restarting:
            if self._is_outdated(table):  # another thread met such a value too
                return
            fitting = self._look_again(connection, table)
            if fitting.schema == table.schema:
                raise misfit
            self.tables[table.name] = fitting
            self._rows[table.name] = self._bytes[table.name] = 0
        self._put(_Part(fitting, truncated_rows(fitting), takes_back=True), stopped)
        self._pool.add(self._jobs(fitting))

    def _put(self, part: _Part, stopped: Callable[[], bool]) -> None:
        while True:
            if stopped():
                raise Stopped
            try:
                return self._parts.put(part, timeout=0.1)
            except queue.Full:
                continue
