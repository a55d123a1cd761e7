"""When a segment ends: at 128 MB or 5M rows, and rows wait for a file for at most 30 s.

Files of that size suit Spark and warehouses alike. A file holds whole transactions where they fit; one that does not
fit goes over several files, which the same commit makes real.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.zset import WEIGHT


@dataclass(frozen=True)
class Rotation:
    """Rows in memory are measured as they are there, which is more than the file takes."""

    bytes: int = 128 << 20
    rows: int = 5_000_000
    seconds: float = 30.0

    def full(self, rows: int, size: int) -> bool:
        """Whether a file, or what waits for one, has reached its end."""
        return rows >= self.rows or size >= self.bytes

    def parts(self, rows: pa.Table) -> Iterator[pa.Table]:
        """The rows in order, a file's worth at a time. The two images of an update stay together.

        >>> t = pa.table({"_op": ["I", "U", "U", "I"], "_weight": [1, -1, 1, 1]})
        >>> [part.num_rows for part in Rotation(rows=2).parts(t)]
        [1, 2, 1]
        """
        count = rows.num_rows
        step = max(1, min(self.rows, count * self.bytes // max(rows.nbytes, 1)))
        if step >= count:
            yield rows
            return
        second = (rows["_op"].to_numpy() == "U") & (rows[WEIGHT].to_numpy() > 0)
        start = 0
        while start < count:
            end = min(start + step, count)
            if end < count and second[end]:
                end = end - 1 if end - 1 > start else end + 1
            yield rows.slice(start, end - start)
            start = end


ROTATION = Rotation()
