"""Rows that were read and not yet delivered, cut into batches at commits.

Every row of a known order has a position, counted over the whole stream and over all tables. A commit ends at a
position; a batch is a range of positions that ends at a commit, or a part of one transaction that alone exceeds the
limit, of rows or of bytes; one row is always within it. Rows past the last commit wait for theirs. Rows of streamed and
prepared transactions wait apart, by transaction, and get their positions when it commits; what it rolled back goes.
What waits beyond the memory limit is spilled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, takewhile
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.capture.batch import Batch, Stamp, joined, picked, sliced, stamped, together
from penstock.capture.discover import SourceTable
from penstock.capture.fields import Ints
from penstock.capture.kernels.frames import TXN_LSN, TXN_ROWS, TXN_TS, TXN_WIDTH, TXN_XID
from penstock.capture.messages import PG_EPOCH_MICROS, Aborted, Committed, Event, Prepared
from penstock.capture.positions import Positions
from penstock.capture.returned_memory import give_back
from penstock.capture.rows import Rows, row_sizes
from penstock.capture.spill import Place, Spill
from penstock.lsn import Lsn

# What is put away, and loaded again, as one.
_TOGETHER, _TOGETHER_BYTES = 50_000, 16 << 20
# Bytes of a batch, whatever the memory: a few rows at a time would take all day, and of texts Arrow holds less than
# 2 GB in one array.
_LEAST, _MOST = 64 << 10, 512 << 20


@dataclass
class Part:
    """Rows of one table read in one run, in order. `top` is the open transaction they belong to, or 0."""

    table: SourceTable
    positions: Positions
    rows: Rows | Place
    top: int = 0
    subs: Ints | None = None
    base: int = 0  # the position at which its run begins: parts are in the order of it
    first: int | None = None  # of a transaction that was open: the position at which that begins
    stamped: pa.Table | None = None  # from row `offset` on, once all commits are known
    offset: int = 0

    def outside(self, subtransactions: set[int]) -> npt.NDArray[np.bool_]:
        assert self.subs is not None
        return ~np.isin(self.subs, list(subtransactions))

    def shift(self, by: int) -> None:
        self.positions = self.positions.shifted(by)
        self.base += by

    def precedes(self, other: Part) -> bool:
        """Whether both could be one."""
        return (
            self.table is other.table
            and (self.top, self.first) == (other.top, other.first)
            and self.positions.is_followed_by(other.positions)
            and (self.subs is None or _same(self.subs, other.subs))
        )

    def take_in(self, others: list[Part]) -> None:
        """The rows behind its own, which it precedes."""
        if not others:
            return
        self.positions = Positions(self.positions.first, sum(part.positions.count for part in (self, *others)))
        if self.subs is not None:
            self.subs = np.broadcast_to(self.subs[:1], self.positions.count)

    @property
    def nbytes(self) -> int:
        """In memory, wherever they are."""
        return self.rows.nbytes

    @property
    def held(self) -> int:
        """Bytes in memory, with what the allocators lose among many small arrays: half as much again was measured."""
        return self.rows.nbytes * 3 // 2 if isinstance(self.rows, Rows) else 0


def _same(subs: Ints, others: Ints | None) -> bool:
    """Whether all rows of both are of one subtransaction."""
    return others is not None and bool((subs == subs[0]).all() and (others == subs[0]).all())


def _adjoining(parts: list[Part]) -> Iterator[list[Part]]:
    """The parts in order, those in memory together as far as one could be made of them."""
    group: list[Part] = []
    rows = size = 0
    for part in parts:
        rows, size = rows + part.positions.count, size + part.nbytes
        both = group and isinstance(group[-1].rows, Rows) and isinstance(part.rows, Rows)
        if both and rows <= _TOGETHER and size <= _TOGETHER_BYTES and group[-1].precedes(part):
            group.append(part)
            continue
        if group:
            yield group
        group, rows, size = [part], part.positions.count, part.nbytes
    if group:
        yield group


@dataclass(frozen=True)
class Run:
    """What was read between two ends of open transactions: `rows` positions used, `commits` with row numbers inside."""

    parts: list[Part]
    rows: int
    commits: Ints


Step = Run | Event


@dataclass
class _Open:
    """A transaction that is streamed while it runs, or prepared."""

    parts: list[Part] = field(default_factory=list)
    rows: int = 0
    aborted: set[int] = field(default_factory=set)
    prepared: Prepared | None = None


class Backlog:
    """Parts in the order they were read, and the commits known so far."""

    def __init__(self, start: Lsn, spill: Spill, memory: int) -> None:
        self.cut = start  # end of the last transaction delivered
        self.passed = start  # end of the last transaction read
        self._memory = memory
        self._room = min(max(memory // 2, _LEAST), _MOST)  # bytes of a batch
        self._spill = spill
        self._held = 0
        self._read_back = 0  # bytes, since memory was given back
        self._parts: deque[Part] = deque()
        self._open: dict[int, _Open] = {}
        self._commits: Ints = np.empty((0, TXN_WIDTH), np.int64)  # rows hold positions here
        self._cursor = 0  # position of the next row to deliver
        self._end = 0  # position of the next row to read

    @property
    def ready(self) -> bool:
        """True while a whole transaction waits."""
        return len(self._commits) > 0

    @property
    def waiting(self) -> int:
        return self._end - self._cursor + sum(one.rows for one in self._open.values())

    @property
    def prepared(self) -> list[Prepared]:
        """Two-phase transactions that are neither committed nor rolled back."""
        return [one.prepared for one in self._open.values() if one.prepared is not None]

    def apply(self, step: Step) -> None:
        match step:
            case Run():
                self._add(step)
            case Committed():
                self._commit(step)
            case Aborted():
                self._abort(step)
            case Prepared():
                self._open.setdefault(step.xid, _Open()).prepared = step

    def restart(self, passed: Lsn) -> None:
        """Another reader goes on behind `passed`: what is not whole yet comes again."""
        self.passed = passed
        self._end = int(self._commits[-1, TXN_ROWS]) if self.ready else self._cursor
        parts, self._parts = self._parts, deque()
        for part in parts:
            kept = self._before(part, self._end)
            if kept is not None:
                self._parts.append(kept)
        for opened in self._open.values():
            for part in opened.parts:
                self._drop(part)
        self._open.clear()

    def take(self, limit: int) -> Batch | None:
        """The next batch of at most `limit` rows and so many bytes, or None if no whole transaction waits."""
        while self.ready:
            stop, whole = self._stop(limit)
            tables, shapes = self._cut_out(stop)
            self._cursor = stop
            if whole:
                self.cut = Lsn(self._commits[whole - 1, TXN_LSN])
                self._commits = self._commits[whole:]
            if whole or tables:
                return Batch(tables, complete=whole > 0, cut=self.cut, shapes=shapes)
        return None

    def _add(self, run: Run) -> None:
        for part in run.parts:
            if part.top:
                opened = self._open.setdefault(part.top, _Open())
                part.shift(opened.rows)
                opened.parts.append(part)
            else:
                part.shift(self._end)
                self._parts.append(part)
        for part in run.parts:
            if part.top:
                opened = self._open[part.top]
                opened.rows = max(opened.rows, part.positions.last + 1)
        placed = run.commits.copy()
        placed[:, TXN_ROWS] += self._end
        self._commits = np.concatenate([self._commits, placed])
        self._end += run.rows
        if len(placed):
            self.passed = Lsn(max(self.passed, int(placed[-1, TXN_LSN])))
        self._held += sum(part.held for part in run.parts)
        if self._held > self._memory:
            self._spill_open()

    def _spill_open(self) -> None:
        """Put everything that waits for a commit into files; what is committed is about to be delivered."""
        known = int(self._commits[-1, TXN_ROWS]) if self.ready else 0
        committed = [part for part in self._parts if part.positions.last < known]
        waiting = [part for part in self._parts if part.positions.last >= known]
        self._parts = deque([*committed, *self._put_away(waiting)])
        for opened in self._open.values():
            opened.parts = self._put_away(opened.parts)

    def _put_away(self, parts: list[Part]) -> list[Part]:
        """What is in memory into a file. Parts that follow each other become one: they come by the hundred rows."""
        groups = list(_adjoining(parts))
        held = [group for group in groups if isinstance(group[0].rows, Rows)]
        if not held:
            return parts
        places = self._spill.write(joined([part.rows for part in group]) for group in held)  # type: ignore[misc]
        for group, place in zip(held, places, strict=True):
            self._held -= sum(part.held for part in group)
            group[0].take_in(group[1:])
            for part in group:
                part.rows, part.stamped = place, None
        give_back()
        return [group[0] for group in groups]

    def _commit(self, event: Committed) -> None:
        """The rows of an open transaction take their place behind everything that committed before."""
        opened = self._open.pop(event.xid, _Open())
        if event.end <= self.passed:  # an earlier reader had read it
            for part in opened.parts:
                self._drop(part)
            return
        kept = self._kept(opened)
        if any(isinstance(part.rows, Place) for part in kept):  # its delivery needs the room that the rest takes
            kept = self._put_away(kept)
        begin = self._end
        for part in kept:
            part.first = begin
            part.shift(begin)
            self._end = max(self._end, part.positions.last + 1)
        self._parts.extend(kept)
        line = np.empty((1, TXN_WIDTH), np.int64)
        line[0, TXN_ROWS], line[0, TXN_LSN] = self._end, event.end
        line[0, TXN_TS], line[0, TXN_XID] = event.time, event.xid
        self._commits = np.concatenate([self._commits, line])
        self.passed = Lsn(event.end)

    def _abort(self, event: Aborted) -> None:
        if event.sub != event.xid:
            if event.xid in self._open:
                self._open[event.xid].aborted.add(event.sub)
            return
        for part in self._open.pop(event.xid, _Open()).parts:
            self._drop(part)

    def _kept(self, opened: _Open) -> list[Part]:
        """Its parts without the rows of rolled-back subtransactions, counted anew."""
        if not opened.aborted:
            return opened.parts
        kept = []
        for part in opened.parts:
            left = self._only(part, part.outside(opened.aborted))
            if left is not None:
                kept.append(left)
            if self._held > self._memory:  # spilled parts were loaded for it
                kept = self._put_away(kept)
        order = np.sort(np.concatenate([part.positions.values() for part in kept])) if kept else np.empty(0, np.int64)
        for part in kept:
            part.base = int(np.searchsorted(order, part.base))
            part.positions = Positions.of(np.searchsorted(order, part.positions.values()))
        return kept

    def _before(self, part: Part, end: int) -> Part | None:
        """A chunk may hold the end of one transaction and the begin of the next."""
        return self._only(part, part.positions.values() < end)

    def _only(self, part: Part, keep: npt.NDArray[np.bool_]) -> Part | None:
        if keep.all():
            return part
        if not keep.any():
            self._drop(part)
            return None
        rows, subs = picked(self._loaded(part), np.flatnonzero(keep)), None if part.subs is None else part.subs[keep]
        self._drop(part)
        left = replace(part, positions=part.positions.only(keep), rows=rows, subs=subs, stamped=None)
        self._held += left.held
        return left

    def _loaded(self, part: Part) -> Rows:
        if isinstance(part.rows, Place):
            part.rows = self._spill.read(part.rows)
            self._held += part.held
            self._read_back += part.held
            if self._read_back > self._memory // 4:  # and most of it is delivered and freed by now
                self._read_back = 0
                give_back()
        return part.rows

    def _drop(self, part: Part) -> None:
        if isinstance(part.rows, Place):
            self._spill.release(part.rows)
        else:
            self._held -= part.held

    def _stop(self, limit: int) -> tuple[int, int]:
        """Where the next batch ends, and how many commits it holds."""
        ends = self._commits[:, TXN_ROWS]
        whole = int(np.searchsorted(ends, self._cursor + limit, side="right"))
        stop = int(ends[whole - 1]) if whole else self._cursor + limit
        for find_earlier in (self._shape_change, self._overflow):
            earlier = find_earlier(stop)
            if earlier is not None:
                whole = int(np.searchsorted(ends, earlier, side="right"))
                stop = int(ends[whole - 1]) if whole else earlier
        return stop, whole

    def _shape_change(self, stop: int) -> int | None:
        """The first position before `stop` where a table's rows have another shape than those before."""
        shapes: dict[str, SourceTable] = {}
        for part in self._parts:
            if part.base >= stop:
                break
            if part.positions.first < stop and shapes.setdefault(part.table.name, part.table) is not part.table:
                return part.positions.first
        return None

    def _overflow(self, stop: int) -> int | None:
        """The first position before `stop` whose row does not fit with those before it. The first row always does."""
        parts = list(takewhile(lambda part: part.base < stop, self._parts))
        if sum(part.nbytes for part in parts) <= self._room:
            return None
        room = self._room
        for _, run in groupby(parts, attrgetter("base")):
            places, sizes = self._sizes(list(run), stop)
            used = np.cumsum(sizes)
            fit = int(np.searchsorted(used, room, side="right"))
            if fit < len(places):
                return int(places[fit]) if places[fit] > self._cursor else self._cursor + 1
            room -= int(used[-1]) if len(used) else 0
        return None

    def _sizes(self, run: list[Part], stop: int) -> tuple[Ints, Ints]:
        """The positions from the cursor up to `stop` in one run, in order, and the bytes of each row."""
        places, sizes = [], []
        for part in run:
            start, end = part.positions.between(self._cursor, stop)
            if start < end:
                places.append(part.positions.values(start, end))
                sizes.append(row_sizes(sliced(self._loaded(part), start, end)))
        if not places:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        order = np.argsort(np.concatenate(places), kind="stable")
        return np.concatenate(places)[order], np.concatenate(sizes)[order]

    def _cut_out(self, stop: int) -> tuple[dict[str, pa.Table], dict[str, SourceTable]]:
        """The rows from the cursor up to `stop` by table, stamped with their commits."""
        pieces: dict[str, list[pa.Table]] = {}
        shapes: dict[str, SourceTable] = {}
        left: list[Part] = []
        while self._parts and self._parts[0].base < stop:
            part = self._parts.popleft()
            start, end = part.positions.between(self._cursor, stop)
            if start < end:
                pieces.setdefault(part.table.name, []).append(self._piece(part, start, end))
                shapes[part.table.name] = part.table
            if end < part.positions.count:
                left.append(part)
            else:
                self._drop(part)
        self._parts.extendleft(reversed(left))
        return {name: together(tables) for name, tables in pieces.items()}, shapes

    def _piece(self, part: Part, start: int, end: int) -> pa.Table:
        rows = self._loaded(part)
        if part.first is not None:  # blocks of it came among others: their order is known only now
            rows = replace(rows, seqs=part.positions.values() - part.first)
        if part.stamped is None:
            if part.positions.last >= self._commits[-1, TXN_ROWS]:  # its last rows wait for their commit
                return stamped(part.table, sliced(rows, start, end), self._stamp(part.positions.values(start, end)))
            whole = sliced(rows, start, part.positions.count)
            part.stamped = stamped(part.table, whole, self._stamp(part.positions.values(start)))
            part.offset = start
        return part.stamped.slice(start - part.offset, end - start)

    def _stamp(self, positions: Ints) -> Stamp:
        """The commit of each position is the first that ends behind it."""
        ends = self._commits[:, TXN_ROWS]
        columns = (self._commits[:, place] for place in (TXN_LSN, TXN_TS, TXN_XID))
        first, count = positions[0], len(positions)
        if positions[-1] - first + 1 == count:
            rows = np.diff(np.clip(ends - first, 0, count), prepend=0)  # of each commit
            lsns, times, xids = (np.repeat(column, rows) for column in columns)
        else:
            which = np.searchsorted(ends, positions, side="right")
            lsns, times, xids = (column[which] for column in columns)
        return Stamp(lsns, times + PG_EPOCH_MICROS, xids)
