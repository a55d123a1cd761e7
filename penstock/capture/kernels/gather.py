"""Bytes of many fields brought together: what Arrow's string and binary arrays, and its text parsers, need."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from penstock.compiled import SHORT, copy_memory, copy_short, kernel

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
_ZERO, _NINE, _a, _f = ord("0"), ord("9"), ord("a"), ord("f")


def gather(data: Bytes, offsets: Ints, lengths: Ints) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Arrow offsets and bytes of the fields; a NULL or absent field is empty."""
    bounds = np.empty(len(offsets) + 1, np.int32)
    out = np.empty(_measure(lengths, bounds), np.uint8)
    _collect(data, offsets, bounds, out)
    return bounds, out


@kernel("int64(int64[::1], int32[::1])")
def _measure(lengths, bounds):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(lengths.size):
        bounds[i] = total
        total += max(lengths[i], 0)
    bounds[lengths.size] = total
    return total


@kernel("void(uint8[::1], int64[::1], int32[::1], uint8[::1])")
def _collect(data, offsets, bounds, out):  # type: ignore[no-untyped-def]
    to, source = nb.int64(out.ctypes.data), nb.int64(data.ctypes.data)
    safe, room = data.size - SHORT, out.size - SHORT
    for i in range(offsets.size):
        here, start = nb.int64(bounds[nb.uint64(i)]), offsets[nb.uint64(i)]
        length = nb.int64(bounds[nb.uint64(i + 1)]) - here
        if 0 < length <= SHORT and start <= safe and here <= room:
            copy_short(to + here, source + start)
        elif length > 0:  # a loop over the bytes takes six times as long, and twenty times for longer values
            copy_memory(to + here, source + start, length)


@kernel("boolean(uint8[::1])")
def is_ascii(data):  # type: ignore[no-untyped-def]
    """Whether no byte needs to be looked at to know that it is UTF-8."""
    found = np.uint8(0)
    for i in range(data.size):
        found |= data[i]
    return found < 128


@kernel("int64(uint8)", inline=True)
def _digit(byte):  # type: ignore[no-untyped-def]
    if _ZERO <= byte <= _NINE:
        return byte - _ZERO
    if _a <= byte <= _f:
        return byte - _a + 10
    return -1


@kernel("Tuple((int64, int32[::1], uint8[::1]))(uint8[::1], int64[::1], int64[::1])", allocates=True)
def gather_hex(data, offsets, lengths):  # type: ignore[no-untyped-def]
    r"""The bytes written as `\x0aff`: (first bad field or -1, Arrow offsets, bytes)."""
    count = offsets.size
    bounds = np.empty(count + 1, np.int32)
    total = 0
    for i in range(count):
        bounds[i] = total
        if lengths[i] >= 0:
            if lengths[i] < 2 or lengths[i] % 2 or data[offsets[i]] != 92 or data[offsets[i] + 1] != 120:
                return i, bounds, np.empty(0, np.uint8)
            total += (lengths[i] - 2) // 2
    bounds[count] = total
    out = np.empty(total, np.uint8)
    for i in range(count):
        start = offsets[i] + 2
        for j in range(bounds[i + 1] - bounds[i]):
            high, low = _digit(data[start + 2 * j]), _digit(data[start + 2 * j + 1])
            if high < 0 or low < 0:
                return i, bounds, out
            out[bounds[i] + j] = (high << 4) | low
    return nb.int64(-1), bounds, out
