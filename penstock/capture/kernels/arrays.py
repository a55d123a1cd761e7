"""PostgreSQL's arrays into Arrow's lists: where the elements of each value are, in binary and in text form.

A list has one dimension and begins at 1. Any other value, and bytes that are no array, stop the kernel: it gives the
row and why.
"""

from __future__ import annotations

import numpy as np

from penstock.capture.kernels.big_endian import int32 as _int32
from penstock.compiled import kernel

FITS, NO_LIST, MALFORMED = 0, 1, 2

_OPEN, _CLOSE, _QUOTE, _BACKSLASH, _COMMA, _BRACKET = (ord(c) for c in '{}"\\,[')
_N, _U, _L = (ord(c) for c in "NUL")


@kernel("Tuple((int64, int64))(uint8[::1], int64, int64)")
def _sent_size(data, at, length):  # type: ignore[no-untyped-def]
    """Elements of one array as array_send wrote it, and whether it is a list."""
    if length < 12:
        return 0, MALFORMED
    dimensions = _int32(data, at)
    if dimensions == 0:
        return 0, FITS if length == 12 else MALFORMED
    if length < 20:
        return 0, MALFORMED
    size = _int32(data, at + 12)
    if dimensions != 1 or _int32(data, at + 16) != 1:
        return 0, NO_LIST
    return size, FITS if size >= 0 and 4 * size <= length - 20 else MALFORMED


@kernel(
    "Tuple((int64, int64, int32[::1], int64[::1], int64[::1]))(uint8[::1], int64[::1], int64[::1])",
    allocates=True,
)
def from_sent(data, offsets, lengths):  # type: ignore[no-untyped-def]
    """(row, code, list bounds, element offsets, element lengths); an element's length is -1 where it is NULL."""
    count = offsets.size
    bounds = np.zeros(count + 1, np.int32)
    none = np.empty(0, np.int64)
    total = 0
    for i in range(count):
        if lengths[i] >= 0:
            size, code = _sent_size(data, offsets[i], lengths[i])
            if code != FITS:
                return i, code, bounds, none, none
            total += size
        bounds[i + 1] = total
    starts, sizes = np.empty(total, np.int64), np.empty(total, np.int64)
    at_element = 0
    for i in range(count):
        if bounds[i + 1] == bounds[i]:
            continue
        at, end = offsets[i] + 20, offsets[i] + lengths[i]
        for _ in range(bounds[i + 1] - bounds[i]):
            if at + 4 > end:
                return i, MALFORMED, bounds, starts, sizes
            length = _int32(data, at)
            at += 4
            if length < -1 or at + length > end:
                return i, MALFORMED, bounds, starts, sizes
            starts[at_element], sizes[at_element] = at, length
            at_element += 1
            at += max(length, 0)
        if at != end:
            return i, MALFORMED, bounds, starts, sizes
    return -1, FITS, bounds, starts, sizes


@kernel("Tuple((int64, int64))(uint8[::1], int64, int64)")
def _text_size(data, at, end):  # type: ignore[no-untyped-def]
    """Elements of one array as array_out wrote it, and whether it is a list."""
    if at >= end:
        return 0, MALFORMED
    if data[at] == _BRACKET:  # [0:2]={…}: it does not begin at 1
        return 0, NO_LIST
    if data[at] != _OPEN or data[end - 1] != _CLOSE or end - at < 2:
        return 0, MALFORMED
    if end - at == 2:
        return 0, FITS
    size, quoted, i = 1, False, at + 1
    while i < end - 1:
        byte = data[i]
        if byte == _BACKSLASH:
            i += 1
        elif byte == _QUOTE:
            quoted = not quoted
        elif not quoted and byte == _COMMA:
            size += 1
        elif not quoted and byte == _OPEN:
            return 0, NO_LIST
        i += 1
    return size, MALFORMED if quoted or i != end - 1 else FITS


@kernel("boolean(uint8[::1], int64, int64)")
def _is_null(out, at, end):  # type: ignore[no-untyped-def]
    return end - at == 4 and out[at] == _N and out[at + 1] == _U and out[at + 2] == _L and out[at + 3] == _L


@kernel(
    "Tuple((int64, int64, int32[::1], uint8[::1], int64[::1], int64[::1]))(uint8[::1], int64[::1], int64[::1])",
    allocates=True,
)
def from_text(data, offsets, lengths):  # type: ignore[no-untyped-def]
    """(row, code, list bounds, the elements' bytes without quotes, their offsets, their lengths)."""
    count = offsets.size
    bounds = np.zeros(count + 1, np.int32)
    none = np.empty(0, np.int64)
    total, room = 0, 0
    for i in range(count):
        if lengths[i] >= 0:
            size, code = _text_size(data, offsets[i], offsets[i] + lengths[i])
            if code != FITS:
                return i, code, bounds, data, none, none
            total += size
            room += lengths[i]
        bounds[i + 1] = total
    out = np.empty(room, np.uint8)
    starts, sizes = np.empty(total, np.int64), np.empty(total, np.int64)
    to = 0
    for i in range(count):
        at = offsets[i] + 1
        for element in range(bounds[i], bounds[i + 1]):
            starts[element] = to
            was_quoted, quoted = False, False
            while quoted or (data[at] != _COMMA and data[at] != _CLOSE):
                byte = data[at]
                if byte == _QUOTE:
                    quoted, was_quoted = not quoted, True
                else:
                    if byte == _BACKSLASH:
                        at += 1
                        byte = data[at]
                    out[to] = byte
                    to += 1
                at += 1
            at += 1
            null = not was_quoted and _is_null(out, starts[element], to)
            sizes[element] = -1 if null else to - starts[element]
    return -1, FITS, bounds, out, starts, sizes
