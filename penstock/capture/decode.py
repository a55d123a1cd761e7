"""A chunk of WAL messages into parts and commits for the backlog.

Many small transactions are decoded together, a column at a time. When something in a chunk cannot be used, the whole
transactions before it are still given, and the error after them: the caller can make those durable first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.capture.backlog import Part
from penstock.capture.bulk import Chunk
from penstock.capture.fields import Ints
from penstock.capture.kernels import frames
from penstock.capture.messages import malformed, parse_relation
from penstock.capture.relations import Relations
from penstock.capture.rows import RowRefused, wal_rows
from penstock.errors import SourceError
from penstock.lsn import Lsn

_PASSED_OVER = b"YOM"  # types, origins and messages carry no rows


@dataclass(frozen=True)
class Decoded:
    parts: list[Part]
    rows: int
    commits: Ints
    failure: SourceError | None = None


class WalDecoder:
    """Keeps what reaches from one chunk into the next: the open transaction and the announced relations."""

    def __init__(self, relations: Relations) -> None:
        self._relations = relations
        self._state = np.zeros(frames.STATE_WIDTH, np.int64)
        self._rows = np.empty((1 << 14, frames.ROW_WIDTH), np.int64)
        self._commits = np.empty((1 << 12, frames.TXN_WIDTH), np.int64)
        self._controls = np.empty((1 << 12, frames.CTL_WIDTH), np.int64)
        self._fields = np.empty((1 << 17, frames.FIELD_WIDTH), np.int64)

    @property
    def keepalive(self) -> Lsn:
        """Every commit up to here has been read."""
        return Lsn(self._state[frames.KEEPALIVE_END])

    def reply_asked(self) -> bool:
        """Whether the server asked for a status since the last call."""
        asked = bool(self._state[frames.REPLY_ASKED])
        self._state[frames.REPLY_ASKED] = 0
        return asked

    def decode(self, chunk: Chunk, position: int) -> Decoded:
        """`position` is that of the chunk's first row in the stream."""
        rows, commits, controls, failure = self._scan(chunk)
        for start, end, commits_before in controls:
            try:
                self._control(chunk.data[start:end].tobytes())
            except SourceError as error:
                failure, commits = error, commits[:commits_before]
                break
        while True:
            chosen = rows if failure is None else rows[: int(commits[-1, frames.TXN_ROWS]) if len(commits) else 0]
            try:
                return Decoded(self._parts(chunk, chosen, position), len(chosen), commits.copy(), failure)
            except RowRefused as error:
                whole = int(np.searchsorted(commits[:, frames.TXN_ROWS], error.row, side="right"))
                failure, commits = error.error, commits[:whole]

    def _scan(self, chunk: Chunk) -> tuple[Ints, Ints, Ints, SourceError | None]:
        while True:
            state = self._state.copy()
            rows, commits, controls, code = frames.scan_wal(
                chunk.data, chunk.ends, chunk.messages, state,
                self._rows, self._commits, self._controls, self._fields,
            )  # fmt: skip
            if code != frames.NO_ROOM:
                break
            self._grow()
        self._state = state
        failure = malformed("a change or commit that breaks the framing") if code == frames.MALFORMED else None
        return self._rows[:rows], self._commits[:commits], self._controls[:controls], failure

    def _grow(self) -> None:
        self._rows, self._commits, self._controls, self._fields = (
            np.empty((len(array) * 2, array.shape[1]), np.int64)
            for array in (self._rows, self._commits, self._controls, self._fields)
        )

    def _control(self, message: bytes) -> None:
        if message[:1] == b"R":
            self._relations.announce(parse_relation(message))
        elif message[:1] not in _PASSED_OVER:
            raise malformed(f"message kind {message[:1]!r}")

    def _parts(self, chunk: Chunk, rows: Ints, position: int) -> list[Part]:
        parts = []
        for oid in np.unique(rows[:, frames.REL]):
            if not self._relations.known(int(oid)):
                raise malformed(f"a row of relation {oid}, which was not announced")
            table = self._relations.table(int(oid))
            if table is None:
                continue
            which = np.flatnonzero(rows[:, frames.REL] == oid)
            try:
                decoded = wal_rows(table, chunk.data, rows[which], self._fields)
            except RowRefused as error:
                error.row = int(which[error.row])
                raise
            parts.append(Part(table, which + position, decoded))
        return parts
