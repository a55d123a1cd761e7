"""Rows taken apart by column: values of a fixed width are decoded on the way, of all others it is noted where they are.

A field is an offset and a length into the chunk's bytes. Length -1 is NULL, -2 is a value the WAL did not carry. The
rows have been framed (`frames.py`); that the fields of one end where it does is seen here.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from penstock.capture.kernels.big_endian import byte, int16, int32, int64
from penstock.capture.kernels.binary import decimal
from penstock.capture.kernels.frames import BORROWED, KEY, WHOLE
from penstock.compiled import kernel

NULL, ABSENT = -1, -2
_b, _n, _t, _u = (ord(c) for c in "bntu")
_MALFORMED = -3
# What becomes of a column's values: a place, or a number of so many bytes.
PLACE, DECIMAL = 0, 16
_FOUR, _EIGHT = (_b << 32) + 4, (_b << 32) + 8  # the mark and the length of a field


@kernel("Tuple((int64, int64, int64))(uint8[::1], int64, int64, boolean)", inline=True)
def _field(data, at, end, marked):  # type: ignore[no-untyped-def]
    """One field: (where its value begins, length or what stands for it, format). Those of a COPY have no mark."""
    if not marked:
        return at + 4, int32(data, at), _b
    if at >= end:
        return at, _MALFORMED, 0
    kind = byte(data, at)
    if kind in (_b, _t):
        if at + 5 > end:
            return at, _MALFORMED, 0
        length = int32(data, at + 1)
        if length < 0 or at + 5 + length > end:
            return at, _MALFORMED, 0
        return at + 5, length, kind
    if kind in (_n, _u):
        return at + 1, NULL if kind == _n else ABSENT, 0
    return at, _MALFORMED, 0


@kernel("Tuple((int64, int64))(uint8[::1], boolean, int64[:,::1], uint8[::1], int64[:,::1], int64[:,::1], uint8[::1])")
def places(data, marked, rows, key, offsets, lengths, formats):  # type: ignore[no-untyped-def]
    """Where the values of all rows are, a line per column: (row, column) of a field that breaks the framing, or whose
    column has values in both formats (then the column is not negative); else (-1, -1).

    `rows` has FIRST, END, IMAGE, OLD and COUNT of each. What an image does not say of a column is absent; a value that
    an update left where it was stands in the old image, if there is one.
    """
    columns = offsets.shape[0]
    for row in range(rows.shape[0]):
        at, end, image, old = rows[row, 0], rows[row, 1], rows[row, 2], rows[row, 3]
        if at < 0:
            for column in range(columns):
                offsets[column, row], lengths[column, row] = 0, NULL
            continue
        for column in range(columns):
            value, length, form = _field(data, at, end, marked)
            if length == _MALFORMED:
                return row, -1
            at = value + max(length, 0)
            if old >= 0:
                before, old_length, old_form = _field(data, old, end, marked)
                old = before + max(old_length, 0)
                if length == ABSENT and old_length >= 0:
                    value, length, form = before, old_length, old_form
            if (image == KEY and length == NULL) or (image == BORROWED and not key[column]):
                length = ABSENT
            offsets[column, row], lengths[column, row] = value, length
            if marked and length >= 0:
                if formats[column] == 0:
                    formats[column] = form
                elif formats[column] != form:
                    return row, column
        if at != end:
            return row, -1
    return -1, -1


@kernel(
    "boolean(uint8[::1], boolean, int64[:,::1], uint8[::1], int64[:,::1], int64[::1], uint8[::1], uint8[:,::1],"
    " int64[::1], int64[:,::1], int64[:,::1])"
)
def values(data, marked, rows, kinds, numerics, starts, out, valid, nulls, offsets, lengths):  # type: ignore[no-untyped-def]
    """Whole rows in the binary format: whether they are that, and all numbers can be held; `places` says what is wrong.

    Numbers of a column lie in `out` from its start on, 0 where NULL. `valid` has Arrow's bits, all set at first. Of the
    other columns, the places come one below the other.
    """
    words, halves, quarters = out.view(np.int64), out.view(np.int32), out.view(np.int16)
    limits = numerics.view(np.uint64)
    mark = 1 if marked else 0
    four, eight = (_FOUR, _EIGHT) if marked else (nb.int64(4), nb.int64(8))
    shift = 24 if marked else 32
    for row in range(rows.shape[0]):
        at, end, place = rows[row, 0], rows[row, 1], nb.uint64(0)
        if at < 0 or rows[row, 2] != WHOLE or rows[row, 4] != kinds.size:
            return False
        for column in range(kinds.size):
            kind = kinds[nb.uint64(column)]
            # Most values: mark and length in one look at eight bytes, which all are the field's own.
            if kind == 8 and at + mark + 12 <= end and int64(data, at) >> shift == eight:
                words[nb.uint64((starts[nb.uint64(column)] >> 3) + row)] = int64(data, at + mark + 4)
                at += mark + 12
                continue
            if kind == 4 and at + mark + 8 <= end and int64(data, at) >> shift == four:
                halves[nb.uint64((starts[nb.uint64(column)] >> 2) + row)] = int32(data, at + mark + 4)
                at += mark + 8
                continue
            length = nb.int64(NULL)
            if marked and at < end and byte(data, at) == _n:
                at += 1
            else:
                if at + mark + 4 > end or (marked and byte(data, at) != _b):
                    return False
                length = int32(data, at + mark)
                at += mark + 4
                if at + length > end or length < (0 if marked else NULL):
                    return False
            if length < 0:
                valid[column, row >> 3] &= ~(1 << (row & 7))
                nulls[column] += 1
            if kind == PLACE:
                offsets[place, nb.uint64(row)], lengths[place, nb.uint64(row)] = at, length
                place += nb.uint64(1)
            elif length >= 0 and length != kind and kind != DECIMAL:
                return False
            elif kind == DECIMAL:
                low, high = np.uint64(0), np.uint64(0)
                if length >= 0:
                    low, high, held = decimal(
                        data, at, length, numerics[column, 0], limits[column, 1], limits[column, 2]
                    )
                    if not held:
                        return False
                to = nb.uint64((starts[column] >> 3) + 2 * row)
                words[to], words[to + nb.uint64(1)] = nb.int64(low), nb.int64(high)
            elif kind == 8:
                words[(starts[column] >> 3) + row] = int64(data, at) if length > 0 else 0
            elif kind == 4:
                halves[(starts[column] >> 2) + row] = int32(data, at) if length > 0 else 0
            elif kind == 2:
                quarters[(starts[column] >> 1) + row] = int16(data, at) if length > 0 else 0
            else:
                out[starts[column] + row] = data[nb.uint64(at)] if length > 0 else 0
            at += max(length, 0)
        if at != end:
            return False
    return True
