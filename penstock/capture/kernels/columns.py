"""Rows taken apart by column: values of a fixed width are decoded on the way, of all others it is noted where they are.

A field is an offset and a length into the chunk's bytes. Length -1 is NULL, -2 is a value the WAL did not carry. The
rows have been framed (`frames.py`); that the fields of one end where it does is seen here.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from penstock.capture.kernels.big_endian import byte, int16, int32, int64
from penstock.capture.kernels.binary import MANY_DIGITS, decimal, small_decimal
from penstock.capture.kernels.frames import BORROWED, KEY, WHOLE
from penstock.compiled import SHORT, copy_memory, copy_short, half, kernel, put, reversed_bytes, word

NULL, ABSENT = -1, -2
_b, _n, _t, _u = (ord(c) for c in "bntu")
_MALFORMED = -3
# What becomes of a column's values: a place, a number of so many bytes, or a text among the others.
PLACE, DECIMAL, TEXT = 0, 16, 32
NOT_WHOLE, DECODED, NO_ROOM = 0, 1, 2
# The mark of a field and its length, as the low bytes of a word; without the mark, those above it.
_MARK = np.uint64(8)
_MARKED, _UNMARKED = np.uint64((1 << 40) - 1), np.uint64((1 << 32) - 1)
_ANY = np.uint64((1 << 64) - 1)
_FOUR, _EIGHT = np.uint64((4 << 32) | _b), np.uint64((8 << 32) | _b)


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


@kernel("Tuple((int64, int64))(uint8[::1], boolean, int64[:,:], uint8[::1], int64[:,::1], int64[:,::1], uint8[::1])")
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


@kernel("void(uint8[::1], boolean, int64[:,:], uint8[::1], int64[::1])")
def text_sizes(data, marked, rows, kinds, sizes):  # type: ignore[no-untyped-def]
    """How many bytes the texts of each column have in some rows, as far as they are whole."""
    for row in range(rows.shape[0]):
        at, end = rows[row, 0], rows[row, 1]
        for column in range(kinds.size if at >= 0 else 0):
            if not marked and at + 4 > end:
                break
            value, length, _ = _field(data, at, end, marked)
            if length == _MALFORMED:
                break
            at = value + max(length, 0)
            if kinds[column] == TEXT:
                sizes[column] += max(length, 0)


@kernel(
    "int64(uint8[::1], boolean, int64[:,:], uint8[::1], int64[:,::1], int64[::1], uint8[::1], uint8[:,::1],"
    " int64[::1], int64[:,::1], int64[:,::1], int64[::1], int32[:,::1])"
)
def values(data, marked, rows, kinds, numerics, starts, out, valid, nulls, offsets, lengths, rooms, bounds):  # type: ignore[no-untyped-def]
    """Whole rows in the binary format: whether they are that, and all values can be held; `places` says what is wrong.

    Numbers of a column lie in `out` from its start on, 0 where NULL, and so do texts, in as many bytes as its room, and
    SHORT more; where each ends is said in `bounds`, a line per column of texts. `valid` has Arrow's bits, all set at
    first. Of the other columns, the places come one below the other.
    """
    quarters = out.view(np.int16)
    limits = numerics.view(np.uint64)
    here, to = nb.int64(data.ctypes.data), nb.int64(out.ctypes.data)
    mark = 1 if marked else 0
    safe = data.size - SHORT
    head, four, eight = (_MARKED, _FOUR, _EIGHT) if marked else (_UNMARKED, _FOUR >> _MARK, _EIGHT >> _MARK)
    for row in range(rows.shape[0]):
        at, end, place, text = rows[row, 0], rows[row, 1], nb.uint64(0), nb.uint64(0)
        if at < 0 or rows[row, 2] != WHOLE or rows[row, 4] != kinds.size:
            return NOT_WHOLE
        for column in range(kinds.size):
            kind = kinds[nb.uint64(column)]
            # Most values: mark and length in one look at eight bytes, which all are the field's own.
            if kind == 8 and at + mark + 12 <= end and word(here + at) & head == eight:
                value = reversed_bytes(word(here + at + mark + 4))
                put(to + starts[nb.uint64(column)] + (row << 3), value)
                at += mark + 12
                continue
            if kind == 4 and at + mark + 8 <= end and word(here + at) & head == four:
                put(to + starts[nb.uint64(column)] + (row << 2), reversed_bytes(half(here + at + mark + 4)))
                at += mark + 8
                continue
            if kind >= DECIMAL and at <= safe and (not marked or byte(data, at) == _b):  # short ones, as most are
                value_at = at + mark + 4
                length = nb.int64(nb.int32(reversed_bytes(half(here + at + mark))))
                if 0 <= length <= SHORT and value_at <= safe and value_at + length <= end:
                    start = to + starts[nb.uint64(column)]
                    if kind == TEXT:
                        used = nb.int64(bounds[text, nb.uint64(row)])
                        if used + length > rooms[nb.uint64(column)]:
                            return NO_ROOM
                        copy_short(start + used, here + value_at)  # what comes next is written over what is too much
                        bounds[text, nb.uint64(row + 1)] = used + length
                        text += nb.uint64(1)
                        at = value_at + length
                        continue
                    number = small_decimal(here + value_at, length, numerics[nb.uint64(column), 0])
                    most = limits[nb.uint64(column), 2] if limits[nb.uint64(column), 1] == 0 else _ANY
                    if number != MANY_DIGITS and nb.uint64(abs(number)) < most:
                        put(start + (row << 4), number)
                        put(start + (row << 4) + 8, number >> 63)
                        at = value_at + length
                        continue
            length = nb.int64(NULL)
            if marked and at < end and byte(data, at) == _n:
                at += 1
            else:
                if at + mark + 4 > end or (marked and byte(data, at) != _b):
                    return NOT_WHOLE
                length = int32(data, at + mark)
                at += mark + 4
                if at + length > end or length < (0 if marked else NULL):
                    return NOT_WHOLE
            if length < 0:
                valid[column, row >> 3] &= ~(1 << (row & 7))
                nulls[column] += 1
            if kind == TEXT:
                used = nb.int64(bounds[text, nb.uint64(row)])
                if used + length > rooms[nb.uint64(column)]:
                    return NO_ROOM
                copy_memory(to + starts[nb.uint64(column)] + used, here + at, max(length, 0))
                bounds[text, nb.uint64(row + 1)] = used + max(length, 0)
                text += nb.uint64(1)
            elif kind == PLACE:
                offsets[place, nb.uint64(row)], lengths[place, nb.uint64(row)] = at, length
                place += nb.uint64(1)
            elif length >= 0 and length != kind and kind != DECIMAL:
                return NOT_WHOLE
            elif kind == DECIMAL:
                low, high = np.uint64(0), np.uint64(0)
                if length >= 0:
                    low, high, held = decimal(
                        data, at, length, numerics[column, 0], limits[column, 1], limits[column, 2]
                    )
                    if not held:
                        return NOT_WHOLE
                put(to + starts[nb.uint64(column)] + (row << 4), low)
                put(to + starts[nb.uint64(column)] + (row << 4) + 8, high)
            elif kind == 8:
                put(to + starts[column] + (row << 3), int64(data, at) if length > 0 else nb.int64(0))
            elif kind == 4:
                put(to + starts[column] + (row << 2), nb.int32(int32(data, at) if length > 0 else 0))
            elif kind == 2:
                quarters[(starts[column] >> 1) + row] = int16(data, at) if length > 0 else 0
            else:
                out[starts[column] + row] = data[nb.uint64(at)] if length > 0 else 0
            at += max(length, 0)
        if at != end:
            return NOT_WHOLE
    return DECODED
