"""A chunk of WAL messages into steps for the backlog: runs of rows and commits, and ends of open transactions.

Many small transactions are decoded together, a column at a time. When something in a chunk cannot be used, the whole
transactions before it are still given, and the error after them: the caller can make those durable first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.capture.backlog import Part, Run, Step
from penstock.capture.bulk import Chunk
from penstock.capture.columns import RowRefused
from penstock.capture.fields import Ints
from penstock.capture.kernels import frames
from penstock.capture.messages import Aborted, Committed, malformed, parse_event, parse_message, parse_relation
from penstock.capture.positions import Positions
from penstock.capture.relations import Relations
from penstock.capture.rows import wal_rows
from penstock.errors import SourceError
from penstock.lsn import Lsn

_PASSED_OVER = b"YOb"  # types, origins and the begin of a prepared transaction, whose end says all of it


@dataclass
class Decoded:
    steps: list[Step] = field(default_factory=list)
    failure: SourceError | None = None

    @property
    def commits(self) -> int:
        return sum(len(step.commits) if isinstance(step, Run) else isinstance(step, Committed) for step in self.steps)


@dataclass(frozen=True)
class _Scanned:
    rows: Ints
    commits: Ints
    controls: Ints
    failure: SourceError | None


class WalDecoder:
    """Keeps what reaches from one chunk into the next: the open transaction and the announced relations."""

    def __init__(self, relations: Relations, start: Lsn) -> None:
        self._relations = relations
        self._state = np.zeros(frames.STATE_WIDTH, np.int64)
        self._state[frames.PASSED] = start
        self._rows = np.empty((1 << 14, frames.ROW_WIDTH), np.int64)
        self._commits = np.empty((1 << 12, frames.TXN_WIDTH), np.int64)
        self._controls = np.empty((1 << 12, frames.CTL_WIDTH), np.int64)

    @property
    def keepalive(self) -> Lsn:
        """Every commit up to here has been read, and could be used."""
        return Lsn(self._state[frames.KEEPALIVE_END])

    def reply_asked(self) -> bool:
        """Whether the server asked for a status since the last call."""
        asked = bool(self._state[frames.REPLY_ASKED])
        self._state[frames.REPLY_ASKED] = 0
        return asked

    def restart(self, passed: Lsn) -> None:
        """Another reader goes on from a position at or before `passed`, up to which everything is known."""
        for left in (frames.IN_TXN, frames.REPLY_ASKED, frames.KEEPALIVE_END):
            self._state[left] = 0
        self._state[frames.PASSED] = passed
        self._relations.restart()

    def decode(self, chunk: Chunk) -> Decoded:
        reached = int(self._state[frames.KEEPALIVE_END])
        decoded = self._decode(chunk)
        if decoded.failure is None:
            reached = max(int(self._state[frames.KEEPALIVE_END]), chunk.reached)
        self._state[frames.KEEPALIVE_END] = reached  # never past what cannot be used
        return decoded

    def _decode(self, chunk: Chunk) -> Decoded:
        decoded = Decoded()
        scanned = self._scan(chunk)
        done, commits = 0, 0  # rows and commits that are in steps already
        for start, end, commits_before, rows_before, top in scanned.controls:
            message = chunk.data[start:end].tobytes()
            if self._divides(message):
                run = _Scanned(scanned.rows[done:rows_before], scanned.commits[commits:commits_before], _NONE, None)
                if not self._run(chunk, run, done, decoded):
                    return decoded
                done, commits = int(rows_before), int(commits_before)
            try:
                self._control(message, int(top), decoded)
            except SourceError as error:
                run = _Scanned(scanned.rows[done:rows_before], scanned.commits[commits:commits_before], _NONE, error)
                self._run(chunk, run, done, decoded)
                return decoded
        run = _Scanned(scanned.rows[done:], scanned.commits[commits:], _NONE, scanned.failure)
        self._run(chunk, run, done, decoded)
        return decoded

    def _scan(self, chunk: Chunk) -> _Scanned:
        while True:
            state = self._state.copy()
            rows, commits, controls, code = frames.scan_wal(
                chunk.data, chunk.start, chunk.ends, chunk.messages, chunk.framing, state,
                self._rows, self._commits, self._controls,
            )  # fmt: skip
            if code != frames.NO_ROOM:
                break
            self._grow()
        self._state = state
        failure = malformed("a change or commit that breaks the framing") if code == frames.MALFORMED else None
        return _Scanned(self._rows[:rows], self._commits[:commits], self._controls[:controls], failure)

    def _grow(self) -> None:
        self._rows, self._commits, self._controls = (
            np.empty((len(array) * 2, array.shape[1]), np.int64)
            for array in (self._rows, self._commits, self._controls)
        )

    def _divides(self, message: bytes) -> bool:
        """Whether rows before and after it must be told apart: a new shape of a known table, or the end of a
        transaction that is not between Begin and Commit."""
        if message[:1] == b"R":
            return self._relations.announced_any
        return message[:1] in b"cAPpKr"

    def _control(self, message: bytes, top: int, decoded: Decoded) -> None:
        kind = message[:1]
        if kind == b"R":
            self._relations.announce(parse_relation(message, streamed=top > 0), top)
        elif kind == b"M":
            self._relations.message(parse_message(message, streamed=top > 0), top)
        elif kind not in _PASSED_OVER:
            event = parse_event(message)
            if event is None:
                raise malformed(f"message kind {kind!r}")
            if isinstance(event, Committed):
                self._relations.commit(event.xid)
            elif isinstance(event, Aborted) and event.sub == event.xid:
                self._relations.abort(event.xid)
            decoded.steps.append(event)

    def _run(self, chunk: Chunk, run: _Scanned, before: int, decoded: Decoded) -> bool:
        """Rows and commits between two dividing messages. False if they end in a failure."""
        rows, failure = run.rows, run.failure
        commits = run.commits.copy()
        commits[:, frames.TXN_ROWS] -= before
        while True:
            whole = len(rows) if failure is None else int(commits[-1, frames.TXN_ROWS]) if len(commits) else 0
            try:
                step = self._steps(chunk, rows[:whole], commits)
                break
            except RowRefused as refused:
                kept = int(np.searchsorted(commits[:, frames.TXN_ROWS], refused.row, side="right"))
                failure, commits = refused.error, commits[:kept]
        if step.parts or len(step.commits):
            decoded.steps.append(step)
        decoded.failure = failure
        return failure is None

    def _steps(self, chunk: Chunk, rows: Ints, commits: Ints) -> Run:
        ordinary = rows[:, frames.TOP] == 0
        if ordinary.all():
            return Run(list(self._parts(chunk, rows, 0)), len(rows), commits)
        parts: list[Part] = []
        for top in np.unique(rows[:, frames.TOP]):
            which = np.flatnonzero(rows[:, frames.TOP] == top)
            try:
                parts += self._parts(chunk, rows[which], int(top))
            except RowRefused as error:
                error.row = int(which[error.row])
                raise
        counted = np.concatenate([[0], np.cumsum(ordinary)])
        commits[:, frames.TXN_ROWS] = counted[commits[:, frames.TXN_ROWS]]
        return Run(parts, int(counted[-1]), commits)

    def _parts(self, chunk: Chunk, rows: Ints, top: int) -> Iterator[Part]:
        """Rows of one transaction, or of ordinary ones, by table, counted from 0."""
        relations = rows[:, frames.REL]
        found = _distinct(relations)
        for oid in found:
            if not self._relations.known(oid):
                raise malformed(f"a row of relation {oid}, which was not announced")
            table = self._relations.table(oid, top)
            if table is None:
                continue
            which = np.flatnonzero(relations == oid) if len(found) > 1 else None
            chosen = rows if which is None else rows[which]
            try:
                decoded = wal_rows(table, chunk.data, chosen)
            except RowRefused as error:
                error.row = error.row if which is None else int(which[error.row])
                raise
            positions = Positions(0, len(rows)) if which is None else Positions.of(which)
            yield Part(table, positions, decoded, top, _kept(chosen[:, frames.SUB]) if top else None)


_NONE: Ints = np.empty((0, frames.CTL_WIDTH), np.int64)


def _kept(values: Ints) -> Ints:
    """What stays while a transaction is open: no view, which would keep all it is of alive; mostly one number."""
    if (values == values[0]).all():
        return np.broadcast_to(values[:1].copy(), values.shape)
    return values.copy()


def _distinct(values: Ints) -> list[int]:
    """Mostly it is one."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])]
    return [int(value) for value in np.unique(values)]
