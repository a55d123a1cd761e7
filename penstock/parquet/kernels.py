"""Values of a column into the bytes of a page: integers as packed differences, texts behind their lengths.

The callers have made room: `packed_room` and `texts_room` say how much.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from penstock.compiled import SHORT, copy_memory, copy_short, half, kernel, put, reversed_bytes, width, word

BLOCK, _MINI = 128, 32  # differences that share a smallest one, and those that share a width
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def packed_room(count: int) -> int:
    """Bytes that `pack` may write for so many integers: each as it is, and what every block says of itself."""
    return 40 + (count // BLOCK + 1) * (8 * BLOCK + 14) + 8


def texts_room(count: int, size: int) -> int:
    return 4 * count + size + SHORT


@kernel("int64(int64, uint64)", inline=True)
def _varint(to, value):  # type: ignore[no-untyped-def]
    """Seven bits a byte, the low ones first; returns where the next one goes."""
    while value >= nb.uint64(128):
        put(to, nb.uint8((value & nb.uint64(127)) | nb.uint64(128)))
        value >>= nb.uint64(7)
        to += 1
    put(to, nb.uint8(value))
    return to + 1


@kernel("int64(int64, int64)", inline=True)
def _zigzag(to, value):  # type: ignore[no-untyped-def]
    """Of a signed number, so that small ones are short."""
    return _varint(to, nb.uint64((value << 1) ^ (value >> 63)))


@kernel("int64(int64, int64[::1], int64, int64, int64)", inline=True)
def _pack_bits(to, differences, first, least, bits):  # type: ignore[no-untyped-def]
    """32 numbers of `bits` bits each, one behind the other; returns where the next byte goes."""
    gathered, filled, step = nb.uint64(0), nb.uint64(0), nb.uint64(bits)
    for i in range(_MINI):
        value = nb.uint64(differences[nb.uint64(first + i)] - least)
        gathered |= value << filled
        filled += step
        if filled >= nb.uint64(64):
            put(to, gathered)
            to += 8
            filled -= nb.uint64(64)
            gathered = value >> (step - filled) if filled > nb.uint64(0) else nb.uint64(0)
    if filled > nb.uint64(0):  # an odd width leaves half a word
        put(to, nb.uint32(gathered))
        to += 4
    return to


@kernel("int64(int64, int64)", inline=True)
def _number(address, step):  # type: ignore[no-untyped-def]
    """An integer of four bytes, or the low eight of more."""
    return nb.int64(nb.int32(half(address))) if step == 4 else nb.int64(word(address))


@kernel("int64(int64, int64[::1])")
def _block(to, differences):  # type: ignore[no-untyped-def]
    """The smallest of a block's differences, and by how much each is larger; returns where the next byte goes."""
    least = differences[0]
    for i in range(BLOCK):
        least = min(least, differences[nb.uint64(i)])
    to = _zigzag(to, least)
    widths = to
    to += BLOCK // _MINI
    for first in range(0, BLOCK, _MINI):
        found = nb.uint64(0)
        for i in range(_MINI):
            found |= nb.uint64(differences[nb.uint64(first + i)] - least)
        bits = width(found)
        put(widths, nb.uint8(bits))
        widths += 1
        if bits > 0:
            to = _pack_bits(to, differences, first, least, bits)
    return to


@kernel("Tuple((int64, int64, int64))(int64[:,::1], int64, boolean, uint8[::1], int64[::1])")
def pack(pieces, step, narrow, out, differences):  # type: ignore[no-untyped-def]
    """DELTA_BINARY_PACKED; returns how many bytes, and the least and the greatest if there is one.

    `pieces` has the address of the first integer and the number of them, which lie `step` bytes apart: 4, 8 or 16.
    `differences` is room for a block. They wrap around as the numbers do, in their own width, of four bytes if they are
    `narrow`: whoever adds them up gets the numbers back.
    """
    count, begin = nb.int64(0), nb.int64(out.ctypes.data)
    for piece in range(pieces.shape[0]):
        count += pieces[piece, 1]
    first = _number(pieces[0, 0], step) if count else nb.int64(0)
    to = _varint(_varint(_varint(begin, nb.uint64(BLOCK)), nb.uint64(BLOCK // _MINI)), nb.uint64(count))
    to = _zigzag(to, first)
    low, high, before, filled = first, first, first, 0
    for piece in range(pieces.shape[0]):
        at, left = pieces[piece, 0], pieces[piece, 1]
        if piece == 0 and count:
            at, left = at + step, left - 1
        while left > 0:
            some = min(BLOCK - filled, left)
            for i in range(some):
                value = _number(at + i * step, step)
                low, high = min(low, value), max(high, value)
                differences[nb.uint64(filled + i)] = nb.int64(nb.int32(value - before)) if narrow else value - before
                before = value
            at, left, filled = at + some * step, left - some, filled + some
            if filled == BLOCK:
                to, filled = _block(to, differences), 0
    if filled:
        least = differences[0]
        for i in range(filled):
            least = min(least, differences[nb.uint64(i)])
        for i in range(filled, BLOCK):
            differences[nb.uint64(i)] = least
        to = _block(to, differences)
    return to - begin, low, high


@kernel(
    [
        "Tuple((float64, float64, boolean))(float64[::1])",
        "Tuple((float64, float64, boolean))(float32[::1])",
    ]
)
def float_extremes(values):  # type: ignore[no-untyped-def]
    """The least and the greatest, and whether all are numbers; there must be one."""
    low = high = values[0]
    numbers = True
    for i in range(values.size):
        value = values[nb.uint64(i)]
        numbers &= value == value
        low, high = min(low, value), max(high, value)
    return nb.float64(low), nb.float64(high), numbers


@kernel("void(uint64[::1], int64, uint8[::1])")
def big_endian(decimals, size, out):  # type: ignore[no-untyped-def]
    """Decimals of 128 bits as `size` bytes each, 9 to 16, the high one first. `out` has eight bytes more than that."""
    to = nb.int64(out.ctypes.data)
    for i in range(decimals.size // 2):
        low, high = decimals[nb.uint64(2 * i)], decimals[nb.uint64(2 * i + 1)]
        put(to, reversed_bytes(high << nb.uint64(8 * (16 - size))))
        put(to + size - 8, reversed_bytes(low))
        to += size


@kernel("int64(int32[::1], uint8[::1], uint8[::1])")
def plain_texts(bounds, data, out):  # type: ignore[no-untyped-def]
    """Each behind its length of four bytes; returns how many bytes."""
    to, begin, source = nb.int64(out.ctypes.data), nb.int64(out.ctypes.data), nb.int64(data.ctypes.data)
    safe = nb.int64(data.size) - SHORT
    for i in range(bounds.size - 1):
        at = nb.int64(bounds[nb.uint64(i)])
        length = nb.int64(bounds[nb.uint64(i + 1)]) - at
        put(to, nb.uint32(length))
        to += 4
        if length <= SHORT and at <= safe:  # what comes after is written over it
            copy_short(to, source + at)
        elif length > 0:
            copy_memory(to, source + at, length)
        to += length
    return to - begin


@kernel("uint64(uint8[::1], int64, int64)", inline=True)
def _prefix(data, at, length):  # type: ignore[no-untyped-def]
    """The first eight bytes, so that they compare as the text does; what is missing is 0."""
    if length >= 8:
        return reversed_bytes(word(nb.int64(data.ctypes.data) + at))
    found = nb.uint64(0)
    for i in range(length):
        found |= nb.uint64(data[nb.uint64(at + i)]) << nb.uint64(8 * (7 - i))
    return found


@kernel("boolean(uint8[::1], int64, int64, int64, int64)")
def _is_less(data, a, a_length, b, b_length):  # type: ignore[no-untyped-def]
    """Of two texts in `data`, by their bytes."""
    both = min(a_length, b_length)
    while both > 0:
        left, right = _prefix(data, a, both), _prefix(data, b, both)
        if left != right:
            return left < right
        a, b, both = a + 8, b + 8, both - 8
    return a_length < b_length


@kernel("Tuple((int64, int64))(int32[::1], uint8[::1])")
def text_extremes(bounds, data):  # type: ignore[no-untyped-def]
    """Which is the least by its bytes, and which the greatest; there must be one.

    Mostly the first sixteen bytes tell, which are compared as two words.
    """
    least = greatest = 0
    low, low_more, high, high_more = _ALL, _ALL, nb.uint64(0), nb.uint64(0)
    for i in range(bounds.size - 1):
        at = nb.int64(bounds[nb.uint64(i)])
        length = nb.int64(bounds[nb.uint64(i + 1)]) - at
        found, more = _prefix(data, at, length), _prefix(data, at + 8, length - 8)
        if found < low or (found == low and more <= low_more):
            other, end = nb.int64(bounds[nb.uint64(least)]), nb.int64(bounds[nb.uint64(least + 1)])
            if found < low or more < low_more or _is_less(data, at, length, other, end - other):
                low, low_more, least = found, more, i
        if found > high or (found == high and more >= high_more):
            other, end = nb.int64(bounds[nb.uint64(greatest)]), nb.int64(bounds[nb.uint64(greatest + 1)])
            if found > high or more > high_more or _is_less(data, other, end - other, at, length):
                high, high_more, greatest = found, more, i
    return least, greatest
