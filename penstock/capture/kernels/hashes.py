"""PostgreSQL's own 64-bit hash functions over Arrow's buffers: a row hashes to the same number here and there.

Each kernel adds one column to the rows' hashes by XOR. The functions are those behind hash partitioning, so servers
from 11 on give the same values for good: Jenkins' lookup3 over bytes, and over 32 bits for whole numbers.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from penstock.compiled import kernel

_INITIAL = 0x9E3779B9 + 3923095
_32, _64 = np.uint32, np.uint64
_COMMA, _ZERO, _MINUS, _N = (ord(c) for c in ",0-N")
# Arrow's buffers are not to be written.
_OCTETS = nb.types.Array(nb.uint8, 1, "C", readonly=True)
_LONGS = nb.types.Array(nb.int64, 1, "C", readonly=True)
_FLOATS = nb.types.Array(nb.float64, 1, "C", readonly=True)
_PAIRS = nb.types.Array(nb.uint64, 2, "C", readonly=True)
_MASK = nb.types.Array(nb.boolean, 1, "C", readonly=True)
_HASHES = nb.types.Array(nb.uint64, 1, "C")
_u32, _u64, _i64 = nb.uint32, nb.uint64, nb.int64

_GROUPS = 12  # of four digits: 38 digits, shifted by up to three


@kernel("uint32(uint32, uint32)", inline=True)
def _rot(x, k):  # type: ignore[no-untyped-def]
    return _32((x << k) | (x >> (_32(32) - k)))


@kernel("UniTuple(uint32, 3)(uint32, uint32, uint32)")
def _mix(a, b, c):  # type: ignore[no-untyped-def]
    a = _32(a - c) ^ _rot(c, _32(4))
    c = _32(c + b)
    b = _32(b - a) ^ _rot(a, _32(6))
    a = _32(a + c)
    c = _32(c - b) ^ _rot(b, _32(8))
    b = _32(b + a)
    a = _32(a - c) ^ _rot(c, _32(16))
    c = _32(c + b)
    b = _32(b - a) ^ _rot(a, _32(19))
    a = _32(a + c)
    c = _32(c - b) ^ _rot(b, _32(4))
    b = _32(b + a)
    return a, b, c


@kernel("uint64(uint32, uint32, uint32)")
def _final(a, b, c):  # type: ignore[no-untyped-def]
    c = _32((c ^ b) - _rot(b, _32(14)))
    a = _32((a ^ c) - _rot(c, _32(11)))
    b = _32((b ^ a) - _rot(a, _32(25)))
    c = _32((c ^ b) - _rot(b, _32(16)))
    a = _32((a ^ c) - _rot(c, _32(4)))
    b = _32((b ^ a) - _rot(a, _32(14)))
    c = _32((c ^ b) - _rot(b, _32(24)))
    return (_64(b) << _64(32)) | _64(c)


@kernel("UniTuple(uint32, 3)(uint32, uint64)")
def _start(length, seed):  # type: ignore[no-untyped-def]
    a = b = c = _32(_32(_INITIAL & 0xFFFFFFFF) + length)
    if seed != _64(0):
        a = _32(a + _32(seed >> _64(32)))
        b = _32(b + _32(seed & _64(0xFFFFFFFF)))
        return _mix(a, b, c)
    return a, b, c


@kernel(_u32(_OCTETS, _i64), inline=True)
def _word(k, at):  # type: ignore[no-untyped-def]
    return _32(k[at]) | _32(k[at + 1]) << _32(8) | _32(k[at + 2]) << _32(16) | _32(k[at + 3]) << _32(24)


@kernel(_u64(_OCTETS, _i64, _i64, _u64))
def hash_bytes(k, at, length, seed):  # type: ignore[no-untyped-def]
    """hash_any_extended."""
    a, b, c = _start(_32(length), seed)
    while length >= 12:
        a, b, c = _mix(_32(a + _word(k, at)), _32(b + _word(k, at + 4)), _32(c + _word(k, at + 8)))
        at += 12
        length -= 12
    for place in range(length):
        byte = _32(k[at + place])
        if place < 4:
            a = _32(a + (byte << _32(8 * place)))
        elif place < 8:
            b = _32(b + (byte << _32(8 * (place - 4))))
        else:  # the lowest byte of c is the length's
            c = _32(c + (byte << _32(8 * (place - 7))))
    return _final(a, b, c)


@kernel("uint64(int64, uint64)")
def hash_int(value, seed):  # type: ignore[no-untyped-def]
    """hashint8extended: both halves folded into one."""
    high = _32((value >> 32) & 0xFFFFFFFF)
    low = _32(value & 0xFFFFFFFF) ^ (high if value >= 0 else _32(~high))
    a, b, c = _start(_32(4), seed)
    return _final(_32(a + low), b, c)


@kernel(nb.void(_LONGS, _MASK, _u64, _u64, _HASHES))
def add_ints(values, valid, seed, null, out):  # type: ignore[no-untyped-def]
    """Numbers of 32 bits."""
    for row in range(values.size):
        out[row] ^= hash_int(values[row], seed) if valid[row] else null


@kernel(nb.void(_LONGS, _MASK, _u64, _u64, _u64, _HASHES))
def add_longs(values, valid, seed, high_seed, null, out):  # type: ignore[no-untyped-def]
    """Numbers of 64 bits. What the fold loses comes back with the upper half, hashed by itself."""
    for row in range(values.size):
        if valid[row]:
            out[row] ^= hash_int(values[row], seed) ^ hash_int(values[row] >> 32, high_seed)
        else:
            out[row] ^= null


@kernel(nb.void(_FLOATS, _MASK, _u64, _u64, _HASHES), allocates=True)
def add_floats(values, valid, seed, null, out):  # type: ignore[no-untyped-def]
    """Both zeros are one value, and all NaNs are."""
    buffer = np.empty(1, np.float64)
    octets = buffer.view(np.uint8)
    for row in range(values.size):
        if not valid[row]:
            out[row] ^= null
        elif values[row] == 0.0:
            out[row] ^= seed
        else:
            buffer[0] = np.nan if np.isnan(values[row]) else values[row]
            out[row] ^= hash_bytes(octets, 0, 8, seed)


@kernel(nb.void(_OCTETS, _LONGS, _MASK, _u64, _u64, _HASHES))
def add_bytes(data, offsets, valid, seed, null, out):  # type: ignore[no-untyped-def]
    for row in range(valid.size):
        if valid[row]:
            out[row] ^= hash_bytes(data, offsets[row], offsets[row + 1] - offsets[row], seed)
        else:
            out[row] ^= null


@kernel("int64(uint64, uint64, uint8[::1])", allocates=True)
def _digits(low, high, digits):  # type: ignore[no-untyped-def]
    """Decimal digits of a number of 128 bits, the last one first; how many."""
    count = 0
    limbs = np.empty(4, np.uint64)
    limbs[0], limbs[1] = low & _64(0xFFFFFFFF), low >> _64(32)
    limbs[2], limbs[3] = high & _64(0xFFFFFFFF), high >> _64(32)
    while limbs[3] or limbs[2] or (limbs[1] >> _64(31)):
        rest = _64(0)
        for at in range(3, -1, -1):
            whole = (rest << _64(32)) | limbs[at]
            limbs[at] = whole // _64(1_000_000_000)
            rest = whole % _64(1_000_000_000)
        for _ in range(9):
            digits[count] = rest % _64(10)
            rest //= _64(10)
            count += 1
    left = (limbs[1] << _64(32)) | limbs[0]
    while left:
        digits[count] = left % _64(10)
        left //= _64(10)
        count += 1
    return count


@kernel(nb.void(_PAIRS, _i64, _MASK, _u64, _u64, _u64, _HASHES), allocates=True)
def add_decimals(values, scale, valid, seed, minus_seed, null, out):  # type: ignore[no-untyped-def]
    """hash_numeric_extended over groups of four digits, counted from the point, without zeros at both ends.

    It leaves the sign out: numbers below zero have a seed of their own.
    """
    digits = np.empty(48, np.uint8)
    groups = np.empty(_GROUPS, np.int16)
    octets = groups.view(np.uint8)
    after = (scale + 3) // 4  # groups behind the point
    shift = after * 4 - scale
    for row in range(valid.size):
        if not valid[row]:
            out[row] ^= null
            continue
        low, high = values[row, 0], values[row, 1]
        own = seed
        if high >> _64(63):
            own = minus_seed
            low = ~low + _64(1)
            high = ~high + (_64(1) if low == _64(0) else _64(0))
        count = _digits(low, high, digits)
        if count == 0:
            out[row] ^= own - _64(1)
            continue
        total = (count + shift + 3) // 4
        for group in range(total):  # the first group is the most significant one
            value, base = 0, (total - 1 - group) * 4 - shift
            for place in range(3, -1, -1):
                at = base + place
                value = value * 10 + (digits[at] if 0 <= at < count else 0)
            groups[group] = value
        first, last = 0, total
        while groups[first] == 0:
            first += 1
        while groups[last - 1] == 0:
            last -= 1
        weight = total - after - 1 - first
        out[row] ^= hash_bytes(octets, first * 2, (last - first) * 2, own) ^ _64(np.int64(weight))


@kernel(_i64(_HASHES, _MASK, _LONGS, nb.int64[::1], nb.uint8[::1]), allocates=True)
def list_texts(hashes, valid, bounds, offsets, text):  # type: ignore[no-untyped-def]
    """The hashes of each list's elements as text, `-5,N,17`, into `text` (21 bytes an element); its length."""
    end = 0
    digits = np.empty(20, np.uint8)
    for row in range(bounds.size - 1):
        offsets[row] = end
        for at in range(bounds[row], bounds[row + 1]):
            if at > bounds[row]:
                text[end] = _COMMA
                end += 1
            if not valid[at]:
                text[end] = _N
                end += 1
                continue
            left = hashes[at]
            if left >> _64(63):
                text[end] = _MINUS
                end += 1
                left = ~left + _64(1)
            count = 0
            while True:
                digits[count] = left % _64(10)
                left //= _64(10)
                count += 1
                if left == _64(0):
                    break
            for place in range(count - 1, -1, -1):
                text[end] = _ZERO + digits[place]
                end += 1
    offsets[bounds.size - 1] = end
    return end


@kernel(nb.void(_HASHES, _LONGS, _i64, nb.int64[::1], _HASHES))
def add_up(hashes, weights, mask, counts, sums):  # type: ignore[no-untyped-def]
    """Rows and their hashes per bucket. The last hash ties the columns of a row together."""
    for row in range(hashes.size):
        one = hashes[row]
        bucket = np.int64(one & _64(mask))
        counts[bucket] += weights[row]
        sums[bucket] += _64(weights[row]) * (one ^ hash_int(np.int64(one), _64(0)))
