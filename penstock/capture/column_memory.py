"""Memory for the columns of one chunk after another, used again as soon as nobody reads what was in it.

An allocator gives a large piece back to the system when it is freed, and the system clears every page of the next one:
in a virtual machine, a tenth of what it takes to read a backlog. Here a few pieces stay for those that come next, until
`forget`, which whoever has come to an end calls: what was lent before it is not kept when it comes back.
"""

from __future__ import annotations

import weakref
from collections import deque
from itertools import count

import numpy as np

from penstock.capture.fields import Bytes

_LEAST = 1 << 20  # bytes: what is smaller, an allocator keeps by itself
_MOST = 48 << 20  # what is larger has a value of many megabytes, and the next chunk has none
_ROUNDED = 4 << 20  # chunks differ a little, and their memory shall fit each other
_KEPT = 6  # pieces; so many chunks of a backlog are on their way at once

# Pieces come back from whichever thread read the last value of one, perhaps in the middle of `taken`: no lock, which
# that thread might hold already.
_free: deque[Bytes] = deque()
_times = count()
_time = next(_times)  # since the last `forget`


def taken(size: int) -> Bytes:
    """Room for `size` bytes, with anything in it. It is taken back when it and all views of it are gone."""
    if not _LEAST <= size <= _MOST:
        return np.empty(size, np.uint8)
    piece = _kept(size)
    if piece is None:
        piece = np.empty(-(-size // _ROUNDED) * _ROUNDED, np.uint8)
    # Of a view of an array, numpy remembers the array that owns the memory, but not behind something else.
    lent: Bytes = np.frombuffer(piece.data, np.uint8, size)
    weakref.finalize(lent, _take_back, piece, _time).atexit = False
    return lent


def forget() -> None:
    """Free what is kept, and what is still lent as soon as nobody reads it."""
    global _time
    _time = next(_times)
    _free.clear()


def _kept(size: int) -> Bytes | None:
    """One that fits; those in front of it that do not are of another time."""
    while _free:
        try:
            piece = _free.pop()
        except IndexError:  # another thread took the last one
            return None
        if size <= len(piece) <= 2 * size + _ROUNDED:
            return piece
    return None


def _take_back(piece: Bytes, lent_at: int) -> None:
    if lent_at == _time and len(_free) < _KEPT:
        _free.append(piece)
