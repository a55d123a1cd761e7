"""PostgreSQL's binary field forms into Arrow's buffers. Each kernel gives the first field it refuses, or -1."""

from __future__ import annotations

import numba as nb
import numpy as np

from penstock.capture.kernels.big_endian import int16, int32, int64
from penstock.capture.kernels.big_endian import uint16 as _uint16
from penstock.compiled import kernel, reversed_bytes, word

_U32 = np.uint64(0xFFFFFFFF)
_S16, _S32, _S48 = np.uint64(16), np.uint64(32), np.uint64(48)
_U16 = np.uint64(0xFFFF)
_10_4, _10_8, _10_12 = np.uint64(10**4), np.uint64(10**8), np.uint64(10**12)
_ROOM = np.uint64((1 << 64) // 10_000 - 1)  # below it, times 10,000 plus a digit stays in 64 bits
_NEGATIVE, _POSITIVE = 0x4000, 0x0000
MANY_DIGITS = -(1 << 63)  # no value of four digits
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8).copy()


@kernel("int64(uint8[::1], int64[::1], int64[::1], int64, int64[::1])")
def integers(data, offsets, lengths, width, out):  # type: ignore[no-untyped-def]
    """Big-endian integers of 1, 2, 4 or 8 bytes, sign-extended; 0 where NULL."""
    for i in range(offsets.size):
        if lengths[i] != width:
            if lengths[i] >= 0:
                return i
            out[i] = 0
        elif width == 8:
            out[i] = int64(data, offsets[i])
        elif width == 4:
            out[i] = int32(data, offsets[i])
        elif width == 2:
            out[i] = int16(data, offsets[i])
        else:
            out[i] = nb.int8(data[offsets[i]])
    return -1


@kernel(["boolean(int64[::1], int64, int64, int64)", "boolean(int32[::1], int64, int64, int64)"])
def move(values, least, most, by):  # type: ignore[no-untyped-def]
    """Adds `by` to all of them, if none lies outside of what is allowed: whether that was so."""
    for i in range(values.size):
        if values[i] < least or values[i] > most:
            return False
    for i in range(values.size):
        values[i] += by
    return True


@kernel("Tuple((uint64, uint64, boolean))(uint64, uint64, uint64, uint64)")
def times_plus(high, low, factor, digit):  # type: ignore[no-untyped-def]
    """(high, low) * factor + digit in 128 bits, and whether it went past them. The factor is at most 10,000."""
    if high == 0 and low <= _ROOM:
        return np.uint64(0), low * factor + digit, False
    part = (low & _U32) * factor + digit
    result_low = part & _U32
    part = (low >> _S32) * factor + (part >> _S32)
    result_low |= (part & _U32) << _S32
    part = (high & _U32) * factor + (part >> _S32)
    result_high = part & _U32
    part = (high >> _S32) * factor + (part >> _S32)
    result_high |= (part & _U32) << _S32
    return result_high, result_low, (part >> _S32) != 0


@kernel("uint64(int64)")
def _power(exponent):  # type: ignore[no-untyped-def]
    value = np.uint64(1)
    for _ in range(exponent):
        value *= np.uint64(10)
    return value


@kernel("Tuple((uint64, uint64, boolean))(uint8[::1], int64, int64, int64)")
def _magnitude(data, at, length, scale):  # type: ignore[no-untyped-def]
    """|value| * 10^scale in 128 bits, and whether it can be held. Digits are base 10,000."""
    none = np.uint64(0)
    if length < 8:
        return none, none, False
    digits, weight, sign = _uint16(data, at), _uint16(data, at + 2), _uint16(data, at + 4)
    weight = weight - 0x10000 if weight >= 0x8000 else weight
    if length != 8 + 2 * digits or (sign != _POSITIVE and sign != _NEGATIVE):
        return none, none, False
    high, low, exponent = none, none, 4 * weight + scale
    for i in range(digits):
        exponent = 4 * (weight - i) + scale  # of this digit's last place
        digit = np.uint64(_uint16(data, at + 8 + 2 * i))
        factor = np.uint64(10_000)
        if exponent < 0:
            below = _power(min(-exponent, 4))
            if digit % below != none:
                return none, none, False
            digit //= below
            factor = _power(max(4 + exponent, 0))
        high, low, over = times_plus(high, low, factor, digit)
        if over:
            return none, none, False
    if high == none and low == none:
        return none, none, True
    for _ in range(max(exponent, 0)):
        high, low, over = times_plus(high, low, np.uint64(10), none)
        if over:
            return none, none, False
    return high, low, True


@kernel("int64(uint64, uint64)", inline=True)
def _divided(value, by):  # type: ignore[no-untyped-def]
    """MANY_DIGITS if something is left over. The divisor is a constant, so that the compiler multiplies instead."""
    whole = value // by
    return nb.int64(whole) if whole * by == value else nb.int64(MANY_DIGITS)


@kernel("int64(int64, int64, int64)", inline=True)
def small_decimal(address, length, scale):  # type: ignore[no-untyped-def]
    """A value of up to four digits, as most are, times 10^scale; MANY_DIGITS if it is none of them.

    Sixteen bytes are looked at, whatever the length: what comes before the digits is one word, the digits are another.
    """
    head = reversed_bytes(word(address))
    digits, sign = nb.int64(head >> _S48), nb.int64((head >> _S16) & _U16)
    exponent = 4 * (nb.int64(nb.int16(head >> _S32)) - digits + 1) + scale  # of the last place
    if digits < 1 or digits > 4 or length != 8 + 2 * digits or (sign != _POSITIVE and sign != _NEGATIVE):
        return nb.int64(MANY_DIGITS)
    tail = reversed_bytes(word(address + 8)) >> nb.uint64(64 - 16 * digits)
    value = (tail >> _S48) * _10_12 + ((tail >> _S32) & _U16) * _10_8 + ((tail >> _S16) & _U16) * _10_4 + (tail & _U16)
    found = nb.int64(MANY_DIGITS)
    if exponent == 0:
        found = nb.int64(value)
    elif exponent == -2:
        found = _divided(value, np.uint64(100))
    elif exponent == 2:
        found = nb.int64(value * np.uint64(100))
    elif exponent == 1:
        found = nb.int64(value * np.uint64(10))
    elif exponent == -1:
        found = _divided(value, np.uint64(10))
    elif exponent == -3:
        found = _divided(value, np.uint64(1000))
    return -found if sign == _NEGATIVE and found != MANY_DIGITS else found


@kernel("Tuple((uint64, uint64, boolean))(uint64, uint64, boolean, uint64, uint64)", inline=True)
def signed(high, low, negative, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """A magnitude as a Decimal128: (low, high, whether it lies below the limit)."""
    if high > limit_high or (high == limit_high and low >= limit_low):
        return np.uint64(0), np.uint64(0), False
    if negative:
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(1) if low == 0 else ~high
    return low, high, True


@kernel("Tuple((uint64, uint64, boolean))(uint8[::1], int64, int64, int64, uint64, uint64)")
def decimal(data, at, length, scale, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """numeric as a Decimal128 of `scale`: (low, high, whether it can be held and lies below the limit 10^precision)."""
    high, low, held = np.uint64(0), np.uint64(0), False
    small = small_decimal(nb.int64(data.ctypes.data) + at, length, scale) if at + 16 <= data.size else MANY_DIGITS
    if small != MANY_DIGITS:
        low, held = np.uint64(abs(small)), True
    else:
        high, low, held = _magnitude(data, at, length, scale)
    if not held:
        return np.uint64(0), np.uint64(0), False
    return signed(high, low, _uint16(data, at + 4) == _NEGATIVE, limit_high, limit_low)


@kernel("int64(uint8[::1], int64[::1], int64[::1], int64, uint64, uint64, uint64[:,::1])")
def decimals(data, offsets, lengths, scale, limit_high, limit_low, out):  # type: ignore[no-untyped-def]
    """numeric into Decimal128 of `scale`, below the limit 10^precision; 0 where NULL."""
    for i in range(offsets.size):
        out[i, 0], out[i, 1] = 0, 0
        if lengths[i] >= 0:
            low, high, held = decimal(data, offsets[i], lengths[i], scale, limit_high, limit_low)
            if not held:
                return i
            out[i, 0], out[i, 1] = low, high
    return -1


@kernel("Tuple((int64, int32[::1], uint8[::1]))(uint8[::1], int64[::1], int64[::1])", allocates=True)
def uuids(data, offsets, lengths):  # type: ignore[no-untyped-def]
    """uuid as its text: (first bad field or -1, Arrow offsets, bytes)."""
    count = offsets.size
    bounds = np.empty(count + 1, np.int32)
    bounds[0] = 0
    for i in range(count):
        bounds[i + 1] = bounds[i] + (36 if lengths[i] >= 0 else 0)
    out = np.empty(bounds[count], np.uint8)
    for i in range(count):
        if lengths[i] < 0:
            continue
        if lengths[i] != 16:
            return i, bounds, out
        at = nb.int64(bounds[i])
        for j in range(16):
            if j == 4 or j == 6 or j == 8 or j == 10:
                out[at] = 45
                at += 1
            byte = data[offsets[i] + j]
            out[at] = _HEX[byte >> 4]
            out[at + 1] = _HEX[byte & 15]
            at += 2
    return nb.int64(-1), bounds, out
