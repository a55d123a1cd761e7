"""Rows that were read and not yet delivered, cut into batches at commits.

Every row has a position, counted over the whole stream and over all tables. A commit ends at a position; a batch is a
range of positions that ends at a commit, or a part of one transaction that alone exceeds the limit. Rows past the
last commit wait for theirs. A transaction that an earlier run delivered is passed over, so nothing comes twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.capture.batch import Batch, Stamp, sliced, stamped, together
from penstock.capture.discover import SourceTable
from penstock.capture.fields import Ints
from penstock.capture.kernels.frames import TXN_LSN, TXN_ROWS, TXN_TS, TXN_WIDTH, TXN_XID
from penstock.capture.messages import PG_EPOCH_MICROS
from penstock.capture.rows import Rows
from penstock.lsn import Lsn


@dataclass(frozen=True)
class Part:
    """Rows of one table read in one chunk, with their positions in the stream."""

    table: SourceTable
    positions: Ints
    rows: Rows


class Backlog:
    """Parts in the order they were read, and the commits known so far."""

    def __init__(self, start: Lsn) -> None:
        self.cut = start  # end of the last transaction delivered
        self._start = start
        self._parts: deque[Part] = deque()
        self._commits: Ints = np.empty((0, TXN_WIDTH), np.int64)  # rows hold positions here
        self._cursor = 0  # position of the next row to deliver
        self._end = 0  # position of the next row to read

    @property
    def ready(self) -> bool:
        """True while a whole transaction waits."""
        return len(self._commits) > 0

    @property
    def waiting(self) -> int:
        return self._end - self._cursor

    @property
    def next_position(self) -> int:
        return self._end

    def add(self, parts: list[Part], rows: int, commits: Ints) -> None:
        """What one chunk gave: `rows` positions used, `commits` with row numbers inside the chunk."""
        self._parts.extend(parts)
        placed = commits.copy()
        placed[:, TXN_ROWS] += self._end
        self._commits = np.concatenate([self._commits, placed])
        self._end += rows

    def take(self, limit: int) -> Batch | None:
        """The next batch of at most `limit` rows, or None if no whole transaction waits."""
        self._pass_over_delivered()
        if not self.ready:
            return None
        ends = self._commits[:, TXN_ROWS]
        new = self._commits[:, TXN_LSN] > self._start
        fitting = int(np.searchsorted(ends, self._cursor + limit, side="right"))
        fitting = min(fitting, int(np.argmin(new)) if not new.all() else len(new))
        stop = int(ends[fitting - 1]) if fitting else self._cursor + limit
        tables = self._cut_out(stop)
        self._cursor = stop
        if fitting:
            self.cut = Lsn(self._commits[fitting - 1, TXN_LSN])
            self._commits = self._commits[fitting:]
        return Batch(tables, complete=fitting > 0, cut=self.cut)

    def _pass_over_delivered(self) -> None:
        while self.ready and self._commits[0, TXN_LSN] <= self._start:
            self._cursor = int(self._commits[0, TXN_ROWS])
            self._commits = self._commits[1:]
            self._parts = deque(part for part in self._parts if part.positions[-1] >= self._cursor)

    def _cut_out(self, stop: int) -> dict[str, pa.Table]:
        """The rows from the cursor up to `stop` by table, stamped with their commits."""
        pieces: dict[str, list[pa.Table]] = {}
        left: deque[Part] = deque()
        for part in self._parts:
            start, end = (int(i) for i in np.searchsorted(part.positions, (self._cursor, stop)))
            if start < end:
                stamp = self._stamp(part.positions[start:end])
                piece = stamped(part.table, sliced(part.rows, start, end), stamp)
                pieces.setdefault(part.table.name, []).append(piece)
            if end < len(part.positions):
                left.append(part)
        self._parts = left
        return {name: together(tables) for name, tables in pieces.items()}

    def _stamp(self, positions: Ints) -> Stamp:
        commits = self._commits[np.searchsorted(self._commits[:, TXN_ROWS], positions, side="right")]
        return Stamp(commits[:, TXN_LSN], commits[:, TXN_TS] + PG_EPOCH_MICROS, commits[:, TXN_XID])
