"""Small files that were read lately, kept in memory.

Settling and refreshes look into the newest segments again and again, a few rows in each; opening such a file takes
longer than reading it. A segment never changes, and one that is gone or is another file is noticed by its status.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_LARGEST = 1 << 20  # bytes of a file that is kept
_ROOM = 64 << 20  # bytes of all rows that are kept
_LITTLE = 16 << 10  # bytes that are not worth copying rows for


@dataclass(frozen=True)
class _Kept:
    status: tuple[int, int, int]
    rows: pa.Table
    bytes: int


class RecentFiles:
    """For any number of threads; those that were not read for longest make room for others."""

    def __init__(self, largest: int = _LARGEST, room: int = _ROOM) -> None:
        self._largest = largest
        self._room = room
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, path: Path, columns: Sequence[str]) -> pa.Table:
        """Columns of a Parquet file. Raises `FileNotFoundError` as reading it would."""
        rows = self.small(path, columns)
        return pq.read_table(path, columns=list(columns), partitioning=None) if rows is None else rows

    def small(self, path: Path, columns: Sequence[str]) -> pa.Table | None:
        """The same; None for a file that is too large to be kept."""
        found = path.stat()
        if found.st_size > self._largest:
            return None
        status = (found.st_ino, found.st_size, found.st_mtime_ns)
        with self._lock:
            kept = self._kept.get(path)
            if kept is not None and kept.status == status:
                self._kept.move_to_end(path)
                return kept.rows.select(list(columns))
        with pq.ParquetFile(path) as file:
            rows = file.read(use_threads=False)  # of few rows: handing them to others takes longer
        self._keep(path, _Kept(status, rows, rows.nbytes))
        return rows.select(list(columns))

    def remember(self, path: Path, rows: pa.Table, size: int) -> None:
        """A file of so many bytes that was just written."""
        if size > self._largest:
            return
        held = rows.get_total_buffer_size()
        if held > 2 * size + _LITTLE:  # part of a batch, all of which would stay in memory for it
            rows = rows.filter(pa.repeat(True, rows.num_rows))
            held = rows.nbytes
        if held <= self._room // 16:
            found = path.stat()
            self._keep(path, _Kept((found.st_ino, found.st_size, found.st_mtime_ns), rows, held))

    def _keep(self, path: Path, kept: _Kept) -> None:
        with self._lock:
            before = self._kept.pop(path, None)
            self._kept[path] = kept
            self._bytes += kept.bytes - (before.bytes if before else 0)
            while self._bytes > self._room:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.bytes


RECENT = RecentFiles()
