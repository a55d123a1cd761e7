"""The rows of a state that a numbering up to a limit needs: see `views/top_rows.py` for why these are enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lake.base_files import Mask, among_any
from penstock.views import First


def first_rows(rows: pa.Table, touched: Sequence[pa.Table], first: Sequence[First]) -> pa.Table:
    """Of netted rows those with one of the `touched` values, and the best ones: as many more as those."""
    kept = among_any(rows, touched)
    more = int(np.count_nonzero(kept))
    for one in first:
        kept |= _best(rows, one, one.count + more)
    return rows.filter(pa.array(kept))


def _best(rows: pa.Table, first: First, count: int) -> Mask:
    values = rows[first.column].combine_chunks()
    if first.counted is not None:
        values = pc.if_else(pc.greater(rows[first.counted].combine_chunks(), 0), values, pa.scalar(None, values.type))
    there = values.drop_null()
    if len(there) <= count:
        return np.ones(rows.num_rows, dtype=bool)
    if not count:
        return np.asarray(pc.is_null(values))
    order = "descending" if first.descending else "ascending"
    last = there[pc.sort_indices(there, sort_keys=[("", order)])[count - 1].as_py()]
    reaches = (pc.greater_equal if first.descending else pc.less_equal)(values, last)
    return np.asarray(pc.fill_null(reaches, True))
