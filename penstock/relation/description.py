"""What is known of a segment without reading it: kept in the catalog, and beside the file for whoever has only that.

Everything comes from the footer that was just written; the checksum is that of the file's bytes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from penstock.lsn import Lsn

if TYPE_CHECKING:
    from penstock.relation.segment import Segment

Range = tuple[int, int]
Ranges = Mapping[str, Range]

# As many columns as Delta keeps statistics of; readers skip on keys, which come first.
_COLUMNS = 32
_CHUNK = 1 << 20


def ranges_of(footer: pq.FileMetaData, group: int | None = None) -> dict[str, Range]:
    """Least and greatest value of the integer columns of a file or of one of its row groups, where they are told.

    NULLs do not count. Integers are compared alike everywhere; texts are not: statistics truncate them, and collations
    order them.
    """
    found = {
        column.path: _joined(footer, index, group)
        for index, column in _columns(footer)
        if not column.path.startswith("_") and column.path == column.name  # not a part of a nested one
        if column.physical_type in ("INT32", "INT64") and column.logical_type.type in ("NONE", "INT")
    }
    return {name: (low, high) for name, (low, high) in found.items() if isinstance(low, int)}


def times_of(footer: pq.FileMetaData) -> tuple[datetime | None, datetime | None]:
    """The first and the last commit time."""
    return _named(footer, "_ts")


def positions_of(footer: pq.FileMetaData) -> Range:
    """The positions of rows that have one each."""
    low, high = _named(footer, "_lsn")
    return int(low), int(high)


def _named(footer: pq.FileMetaData, name: str) -> tuple[Any, Any]:
    for index in range(footer.num_columns):
        if footer.schema.column(index).path == name:
            return _joined(footer, index)
    return None, None


def _columns(footer: pq.FileMetaData) -> Iterable[tuple[int, pq.ColumnSchema]]:
    return ((index, footer.schema.column(index)) for index in range(min(footer.num_columns, _COLUMNS)))


def _joined(footer: pq.FileMetaData, index: int, group: int | None = None) -> tuple[Any, Any]:
    lows, highs = [], []
    for one in range(footer.num_row_groups) if group is None else [group]:
        stats = footer.row_group(one).column(index).statistics
        if stats is None or not stats.has_min_max:
            return None, None
        lows.append(stats.min)
        highs.append(stats.max)
    return (min(lows), max(highs)) if lows else (None, None)


def checksum_of(content: bytes | memoryview) -> str:
    """
    >>> checksum_of(b"segment")
    'crc32:1881f565'
    """
    return spelled_checksum(zlib.crc32(content))


def spelled_checksum(value: int) -> str:
    return f"crc32:{value:08x}"


def file_checksum(path: Path) -> str:
    value = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return spelled_checksum(value)


def described(folder: str, segment: Segment) -> str:
    """The metadata file of a segment. One of a stream table has no LSN: its round is known only to the catalog."""
    positions = (segment.low, segment.high) if folder.startswith("tables/") else None
    low, high = (None, None) if positions is None else map(str, map(Lsn, positions))
    first, last = (None if time is None else time.isoformat() for time in (segment.first_time, segment.last_time))
    return json.dumps(
        {
            "relation": folder,
            "form": segment.form,
            "rows": segment.rows,
            "bytes": segment.bytes,
            "min_lsn": low,
            "max_lsn": high,
            "first_commit": first,
            "last_commit": last,
            "schema_version": segment.version,
            "checksum": segment.checksum,
            "columns": {name: {"min": low, "max": high} for name, (low, high) in segment.ranges.items()},
        }
    )  # in one line: with an indent, json is written by Python itself, which takes longer than encoding the rows
