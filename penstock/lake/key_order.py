"""Whether files are in the order of a key already, by the statistics of their row groups.

A table that was copied in the order of its pages usually is. Then writing it needs no sort, and file and row group
statistics tell as much as after one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

# On average a key lies in the ranges of at most so many row groups.
_DEPTH = 2.0


def in_order(files: Iterable[Path], column: str) -> bool:
    """True if the row groups' ranges of a numeric column hardly overlap; False where the statistics do not tell."""
    ranges: list[tuple[Any, Any]] = []
    for file in files:
        found = column_ranges(pq.read_metadata(file), column)
        if found is None:
            return False
        ranges += found
    return hardly_overlap(ranges)


def hardly_overlap(ranges: list[tuple[Any, Any]]) -> bool:
    """
    >>> hardly_overlap([(1, 5), (4, 9), (10, 12)]), hardly_overlap([(1, 100), (2, 99), (1, 98)])
    (True, False)
    """
    if not ranges:
        return True
    if not all(isinstance(low, int) and isinstance(high, int) for low, high in ranges):
        return False
    span = max(high for _, high in ranges) - min(low for low, _ in ranges) + 1
    return bool(sum(high - low + 1 for low, high in ranges) <= _DEPTH * span)


def column_ranges(footer: pq.FileMetaData, column: str) -> list[tuple[Any, Any]] | None:
    """The least and the greatest value in each row group; None where a row group does not tell."""
    found = []
    for group in range(footer.num_row_groups):
        meta = footer.row_group(group)
        chunks = [meta.column(n) for n in range(meta.num_columns) if meta.column(n).path_in_schema == column]
        stats = chunks[0].statistics if chunks else None
        if stats is None or not stats.has_min_max:
            return None
        found.append((stats.min, stats.max))
    return found
