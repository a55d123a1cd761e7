"""Numbers as PostgreSQL sends them, at a place that the caller knows to be inside of the data.

The index is unsigned: a negative one would count from the end, and the test for that keeps the compiler from reading
the bytes as one word (7.5 ns instead of 1 ns for eight of them).
"""

from __future__ import annotations

from typing import Any

import numba as nb

from penstock.compiled import kernel

_signed16: Any = nb.int16
_signed32: Any = nb.int32


@kernel("int64(uint8[::1], int64)", inline=True)
def byte(data, at):  # type: ignore[no-untyped-def]
    return nb.int64(data[nb.uint64(at)])


@kernel("int64(uint8[::1], int64)", inline=True)
def uint16(data, at):  # type: ignore[no-untyped-def]
    return (byte(data, at) << 8) | byte(data, at + 1)


@kernel("int64(uint8[::1], int64)", inline=True)
def int16(data, at):  # type: ignore[no-untyped-def]
    return nb.int64(_signed16(uint16(data, at)))


@kernel("int64(uint8[::1], int64)", inline=True)
def uint32(data, at):  # type: ignore[no-untyped-def]
    return (byte(data, at) << 24) | (byte(data, at + 1) << 16) | (byte(data, at + 2) << 8) | byte(data, at + 3)


@kernel("int64(uint8[::1], int64)", inline=True)
def int32(data, at):  # type: ignore[no-untyped-def]
    return nb.int64(_signed32(uint32(data, at)))


@kernel("int64(uint8[::1], int64)", inline=True)
def int64(data, at):  # type: ignore[no-untyped-def]
    return (
        (byte(data, at) << 56)
        | (byte(data, at + 1) << 48)
        | (byte(data, at + 2) << 40)
        | (byte(data, at + 3) << 32)
        | (byte(data, at + 4) << 24)
        | (byte(data, at + 5) << 16)
        | (byte(data, at + 6) << 8)
        | byte(data, at + 7)
    )
