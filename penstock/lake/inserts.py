"""Segments of which every row came in once, by their statistics: they are rows of the relation as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import pyarrow.parquet as pq

from penstock.lake.key_order import column_ranges
from penstock.relation.home import Home
from penstock.relation.segment import Segment
from penstock.zset import WEIGHT


def inserts_only(home: Home, found: Sequence[Segment], after: int, until: int) -> bool:
    """True if all of the segments is in the range, and each row of them is one that came in once."""
    return len(leading_inserts(home, found, until)) == len(found) and all(one.low > after for one in found)


def leading_inserts(home: Home, found: Sequence[Segment], until: int) -> list[Segment]:
    """The first of the segments, as far as all of each is in the range and each row one that came in once."""

    def inserts(one: Segment) -> bool:
        return one.high <= until and _weights(pq.read_metadata(home.path(one.path))) == (1, 1)

    return list(takewhile(inserts, found))


def _weights(footer: pq.FileMetaData) -> tuple[int, int] | None:
    """The least and the greatest weight in a file, by its statistics."""
    found = column_ranges(footer, WEIGHT)
    return None if not found else (min(low for low, _ in found), max(high for _, high in found))
