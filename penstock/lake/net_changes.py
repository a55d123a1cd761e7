"""A relation's changes since its base, added up in memory and kept, so that the next reader adds only what is new.

Bounded: only ranges of few rows are asked for, and only the two newest ends of a range are kept (a refresh reads the
state before and the state after).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.zset import consolidate

Key = tuple[tuple[int, int], int, tuple[str, ...]]  # relation and its shape, position after which, columns
_RANGES = 64


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
            rows = consolidate(new if rows is None else pa.concat_tables([rows, new.cast(rows.schema)]), columns)
        kept = [end for end in ends if end[0] != until]
        self._known[key] = [*sorted(kept, key=lambda end: end[0])[-1:], (until, rows)]
        while len(self._known) > _RANGES:
            self._known.popitem(last=False)
        return rows
