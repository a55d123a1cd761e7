"""Columns of a base's files that look-ups read, kept in memory while that saves time.

To find a few rows, a look-up reads a column of a whole row group, and decoding it is nearly all that it costs. What it
read is kept up to a number of bytes. Beyond it goes what is worth least: the seconds that reading it took, times how
often it was asked for, by its bytes; what was worth much long ago loses to what is asked for now (the rule known as
GreedyDual-Size with frequencies). A file of a base never changes, and another one under its name is noticed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

_SHARE = 16  # of the machine's memory, unless told: one of so many parts
_MOST = 2 << 30  # bytes, unless told

Place = tuple[str, int, str]  # file, row group, column


@dataclass
class _Kept:
    status: tuple[int, int]
    values: pa.ChunkedArray
    seconds: float
    asked: int = 1
    worth: float = 0.0

    def rate(self) -> float:
        return float(self.asked * self.seconds / max(1, self.values.nbytes))


class HotColumns:
    """For any number of threads."""

    def __init__(self, room: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._room = room
        self._clock = clock
        self._kept: dict[Place, _Kept] = {}
        self._bytes = 0
        self._floor = 0.0  # the worth of what went last: what is asked for is worth more
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        return self._bytes

    def limit(self, room: int) -> None:
        """How many bytes may be kept from now on."""
        with self._lock:
            self._room = room
            self._make_room()

    def column(self, place: Place, read: Callable[[], pa.ChunkedArray]) -> pa.ChunkedArray:
        """The column as it is in memory, or as `read` gives it. Raises `FileNotFoundError` if the file is gone."""
        found = os.stat(place[0])
        status = (found.st_ino, found.st_mtime_ns)
        with self._lock:
            kept = self._kept.get(place)
            if kept is not None and kept.status == status:
                kept.asked += 1
                kept.worth = self._floor + kept.rate()
                return kept.values
        began = self._clock()
        values = read()
        self._keep(place, _Kept(status, values, self._clock() - began))
        return values

    def _keep(self, place: Place, new: _Kept) -> None:
        with self._lock:
            before = self._kept.pop(place, None)
            self._bytes += new.values.nbytes - (before.values.nbytes if before else 0)
            new.worth = self._floor + new.rate()
            self._kept[place] = new
            self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self._room:
            place = min(self._kept, key=lambda place: self._kept[place].worth)
            gone = self._kept.pop(place)
            self._bytes -= gone.values.nbytes
            self._floor = gone.worth


def usual_room() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(_MOST, memory // _SHARE)


HOT = HotColumns(usual_room())
