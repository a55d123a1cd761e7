"""A relation's changes since its base, kept in memory, so that the next reader adds only what is new.

Bounded: only ranges of few rows are asked for, and of a range only its newest ends are kept. `NetChanges` are added up,
for those who need all of them; `PlainChanges` are not, for those who look for a few values among them: settling, and
refreshes, which read the state before and the state after.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.fitted import fitted
from penstock.zset import consolidate

Key = tuple[tuple[int, int], int, tuple[str, ...]]  # relation and its shape, position after which, columns
_RANGES, _ROWS = 64, 400_000
_ENDS = 8  # positions up to which the rows of a range are told apart
_PIECE = 1_000  # rows that are not worth putting together


class NetChanges:
    """Consolidated changes by range; `read(after, until)` gives the rows of a part that is not known yet."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, list[tuple[int, pa.Table]]] = OrderedDict()

    def get(
        self,
        relation: tuple[int, int],
        after: int,
        until: int,
        columns: Sequence[str],
        read: Callable[[int, int], pa.Table],
    ) -> pa.Table:
        key = (relation, after, tuple(columns))
        ends = self._known.pop(key, [])
        start, rows = max((end for end in ends if end[0] <= until), default=(after, None), key=lambda end: end[0])
        if start < until or rows is None:
            new = read(start, until)
            rows = consolidate(new if rows is None else pa.concat_tables([rows, fitted(new, rows.schema)]), columns)
        kept = [end for end in ends if end[0] != until]
        self._known[key] = [*sorted(kept, key=lambda end: end[0])[-1:], (until, rows)]
        while len(self._known) > _RANGES:
            self._known.popitem(last=False)
        return rows


@dataclass(frozen=True)
class Pieces:
    """Rows in the order in which they were read: `old` and `new` are in one piece each. `ends` says how many of them
    lie up to each of the last positions."""

    old: pa.Table
    new: pa.Table
    ends: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, rows: pa.Table, end: int) -> Pieces:
        whole = rows.combine_chunks()
        return cls(whole, whole.slice(0, 0), ((end, whole.num_rows),))

    @property
    def end(self) -> int:
        return self.ends[-1][0]

    @property
    def rows(self) -> int:
        return self.ends[-1][1]

    def upto(self, rows: int) -> pa.Table:
        return pa.concat_tables([self.old, self.new]).slice(0, rows)

    def grown(self, rows: pa.Table, end: int) -> Pieces:
        """With what is new up to there. The newer piece joins the older one before it is as large as a part of it, so
        that looking through both stays quick, and each row is copied a few times only."""
        ends = (*self.ends[-_ENDS + 1 :], (end, self.rows + rows.num_rows))
        if not rows.num_rows:
            return replace(self, ends=ends)
        old, new = self.old, pa.concat_tables([self.new, fitted(rows, self.old.schema)]).combine_chunks()
        if new.num_rows > max(_PIECE, old.num_rows // 4):
            old, new = pa.concat_tables([old, new]).combine_chunks(), new.slice(0, 0)
        return Pieces(old, new, ends)


class PlainChanges:
    """Changes by range, as they are in their files, of ranges of at most `most` rows."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[tuple[int, int], int], Pieces] = OrderedDict()

    def end(self, relation: tuple[int, int], after: int) -> int:
        """Up to where the changes after a position are known."""
        known = self._known.get((relation, after))
        return after if known is None else known.end

    def get(
        self,
        relation: tuple[int, int],
        after: int,
        until: int,
        count: Callable[[int, int], int],
        read: Callable[[int, int], pa.Table],
    ) -> pa.Table | None:
        """None if they are too many, by `count(after, until)`; what lies between two known ends is read again."""
        key = (relation, after)
        kept = self._known.pop(key, None)
        new = count(after if kept is None else kept.end, until)
        if new + (0 if kept is None else kept.rows) > self._most:
            return None
        if kept is None:
            kept = Pieces.of(read(after, until), until)
        elif until > kept.end:
            kept = kept.grown(read(kept.end, until) if new else kept.old.slice(0, 0), until)
        self._known[key] = kept
        while len(self._known) > _RANGES or sum(one.rows for one in self._known.values()) > max(_ROWS, self._most):
            self._known.popitem(last=False)
        start, rows = max((end for end in kept.ends if end[0] <= until), default=(after, 0))
        known = kept.upto(rows)
        return known if start >= until else pa.concat_tables([known, fitted(read(start, until), known.schema)])
