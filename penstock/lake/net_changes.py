"""A relation's changes since its base, kept in memory, so that the next reader adds only what is new.

Bounded: only ranges of few rows are asked for, and of a range only its newest ends are kept. `NetChanges` are added up,
for refreshes, which read the state before and the state after; `PlainChanges` are not, for those who look for a few
keys among them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.fitted import fitted
from penstock.zset import consolidate

Key = tuple[tuple[int, int], int, tuple[str, ...]]  # relation and its shape, position after which, columns
_RANGES = 64
_CHUNKS = 50


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


class PlainChanges:
    """Changes by range, as they are in their files, of ranges of at most `most` rows."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[tuple[tuple[int, int], int], tuple[int, pa.Table]] = OrderedDict()

    def end(self, relation: tuple[int, int], after: int) -> int:
        """Up to where the changes after a position are known."""
        known = self._known.get((relation, after))
        return after if known is None else known[0]

    def get(
        self,
        relation: tuple[int, int],
        after: int,
        until: int,
        count: Callable[[int, int], int],
        read: Callable[[int, int], pa.Table],
    ) -> pa.Table | None:
        """None if they are too many, by `count(after, until)`; before the newest end, everything is read again."""
        key = (relation, after)
        end, rows = self._known.pop(key, (after, None))
        if end > until:
            end, rows = after, None
        new = count(end, until)
        if new + (rows.num_rows if rows is not None else 0) > self._most:
            return None
        if rows is None:
            rows = read(after, until)
        elif new:
            rows = pa.concat_tables([rows, fitted(read(end, until), rows.schema)])
            if rows.column(0).num_chunks > _CHUNKS:
                rows = rows.combine_chunks()
        self._known[key] = (until, rows)
        while len(self._known) > _RANGES:
            self._known.popitem(last=False)
        return rows
