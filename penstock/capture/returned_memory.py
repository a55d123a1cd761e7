"""Memory that was freed and that somebody still keeps: given back to the system, where it can be.

numpy allocates with the C library, Arrow with a pool of its own: what one of them has freed the other cannot use.
"""

from __future__ import annotations

import ctypes

import pyarrow as pa

from penstock.capture import column_memory

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it


def give_back() -> None:
    """Some milliseconds: for whoever has just freed much."""
    column_memory.forget()
    if _trim is not None:
        _trim(0)
    pa.default_memory_pool().release_unused()
