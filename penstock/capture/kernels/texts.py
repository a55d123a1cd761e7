"""PostgreSQL's binary field forms into the text that PostgreSQL prints, byte for byte (UTC, ISO, C money).

Each kernel gives (first field it refuses or -1, Arrow offsets, bytes).
"""

from __future__ import annotations

import numba as nb
import numpy as np

from penstock.capture.kernels.big_endian import uint16 as _uint16
from penstock.compiled import kernel

_TEXTS = "Tuple((int64, int32[::1], uint8[::1]))"
_FIELDS = "uint8[::1], int64[::1], int64[::1]"

_INFINITY = np.frombuffer(b"infinity", np.uint8).copy()
_NUMERIC_INFINITY = np.frombuffer(b"Infinity", np.uint8).copy()
_NAN = np.frombuffer(b"NaN", np.uint8).copy()
_BC = np.frombuffer(b" BC", np.uint8).copy()
_UTC = np.frombuffer(b"+00", np.uint8).copy()
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8).copy()

_ZERO, _MINUS, _PLUS, _DOT, _COLON, _SPACE, _SLASH, _COMMA, _DOLLAR = (ord(c) for c in "0-+.: /,$")
_DAY_MICROS = 86_400_000_000
_EPOCH_DAYS = 10_957  # 2000-01-01 since 1970-01-01
_LAST = np.int64(np.iinfo(np.int64).max)
_FIRST = np.int64(np.iinfo(np.int64).min)
_LAST_DAY, _FIRST_DAY = 2**31 - 1, -(2**31)
_SIGN_NAN, _SIGN_INFINITY, _SIGN_MINUS_INFINITY, _SIGN_NEGATIVE = 0xC000, 0xD000, 0xF000, 0x4000
_INET, _INET6 = 2, 3


@kernel("int64(uint8[::1], int64, int64)")
def _integer(data, at, width):  # type: ignore[no-untyped-def]
    value = nb.int64(nb.int8(data[at]))
    for j in range(1, width):
        value = (value << 8) | nb.int64(data[at + j])
    return value


@kernel(nb.int64(nb.uint8[::1], nb.int64, nb.types.Array(nb.uint8, 1, "C", readonly=True)))
def _put(out, to, text):  # type: ignore[no-untyped-def]
    for byte in text:
        out[to] = byte
        to += 1
    return to


@kernel("int64(uint8[::1], int64, int64, int64)")
def _number(out, to, value, width):  # type: ignore[no-untyped-def]
    """A number that is not negative, with at least `width` digits."""
    digits, rest = 1, value // 10
    while rest > 0:
        digits += 1
        rest //= 10
    digits = max(digits, width)
    for j in range(digits):
        out[to + digits - 1 - j] = _ZERO + value % 10
        value //= 10
    return to + digits


@kernel("int64(uint8[::1], int64, int64)")
def _clock(out, to, micros):  # type: ignore[no-untyped-def]
    """HH:MM:SS and what is left of the second, without trailing zeros."""
    seconds, fraction = micros // 1_000_000, micros % 1_000_000
    to = _number(out, to, seconds // 3600, 2)
    out[to] = _COLON
    to = _number(out, to + 1, seconds // 60 % 60, 2)
    out[to] = _COLON
    to = _number(out, to + 1, seconds % 60, 2)
    if fraction:
        out[to] = _DOT
        to = _number(out, to + 1, fraction, 6)
        while out[to - 1] == _ZERO:
            to -= 1
    return to


@kernel("Tuple((int64, boolean))(uint8[::1], int64, int64)")
def _calendar(out, to, days):  # type: ignore[no-untyped-def]
    """YYYY-MM-DD of a day since 2000-01-01, and whether it is BC. The algorithm counts from March, era by era."""
    shifted = days + _EPOCH_DAYS + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march = (5 * of_year + 2) // 153
    day = of_year - (153 * march + 2) // 5 + 1
    month = march + 3 if march < 10 else march - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    to = _number(out, to, year if year > 0 else 1 - year, 4)
    out[to] = _MINUS
    to = _number(out, to + 1, month, 2)
    out[to] = _MINUS
    to = _number(out, to + 1, day, 2)
    return to, year <= 0


@kernel("int64(uint8[::1], int64, boolean)")
def _infinity(out, to, negative):  # type: ignore[no-untyped-def]
    if negative:
        out[to] = _MINUS
        to += 1
    return _put(out, to, _INFINITY)


@kernel(f"{_TEXTS}({_FIELDS})", allocates=True)
def dates(data, offsets, lengths):  # type: ignore[no-untyped-def]
    count = offsets.size
    bounds, out, to = np.zeros(count + 1, np.int32), np.empty(count * 20, np.uint8), 0
    for i in range(count):
        if lengths[i] >= 0:
            if lengths[i] != 4:
                return i, bounds, out
            days = _integer(data, offsets[i], 4)
            if days in (_LAST_DAY, _FIRST_DAY):
                to = _infinity(out, to, days == _FIRST_DAY)
            else:
                to, bc = _calendar(out, to, days)
                if bc:
                    to = _put(out, to, _BC)
        bounds[i + 1] = to
    return -1, bounds, out[:to].copy()


@kernel(f"{_TEXTS}({_FIELDS}, boolean)", allocates=True)
def timestamps(data, offsets, lengths, zoned):  # type: ignore[no-untyped-def]
    count = offsets.size
    bounds, out, to = np.zeros(count + 1, np.int32), np.empty(count * 40, np.uint8), 0
    for i in range(count):
        if lengths[i] >= 0:
            if lengths[i] != 8:
                return i, bounds, out
            micros = _integer(data, offsets[i], 8)
            if micros in (_LAST, _FIRST):
                to = _infinity(out, to, micros == _FIRST)
            else:
                days = micros // _DAY_MICROS
                to, bc = _calendar(out, to, days)
                out[to] = _SPACE
                to = _clock(out, to + 1, micros - days * _DAY_MICROS)
                if zoned:
                    to = _put(out, to, _UTC)
                if bc:
                    to = _put(out, to, _BC)
        bounds[i + 1] = to
    return -1, bounds, out[:to].copy()


@kernel(f"{_TEXTS}({_FIELDS}, boolean)", allocates=True)
def times(data, offsets, lengths, zoned):  # type: ignore[no-untyped-def]
    """time, or timetz with its offset, which is sent as seconds west of UTC."""
    count = offsets.size
    bounds, out, to = np.zeros(count + 1, np.int32), np.empty(count * 32, np.uint8), 0
    for i in range(count):
        if lengths[i] >= 0:
            if lengths[i] != (12 if zoned else 8):
                return i, bounds, out
            to = _clock(out, to, _integer(data, offsets[i], 8))
            if zoned:
                east = -_integer(data, offsets[i] + 8, 4)
                out[to] = _PLUS if east >= 0 else _MINUS
                east = abs(east)
                to = _number(out, to + 1, east // 3600, 2)
                if east % 3600:
                    out[to] = _COLON
                    to = _number(out, to + 1, east // 60 % 60, 2)
                if east % 60:
                    out[to] = _COLON
                    to = _number(out, to + 1, east % 60, 2)
        bounds[i + 1] = to
    return -1, bounds, out[:to].copy()


@kernel("int64(uint8[::1], int64, int64, int64)", inline=True)
def _group(data, at, digits, index):  # type: ignore[no-untyped-def]
    """The base-10,000 digit at `index`, 0 outside."""
    return _uint16(data, at + 8 + 2 * index) if 0 <= index < digits else 0


@kernel("int64(uint8[::1], int64, uint8[::1], int64)")
def _numeric(data, at, out, to):  # type: ignore[no-untyped-def]
    """One finite numeric with all digits after the point that it was written with."""
    digits, weight, scale = _uint16(data, at), _uint16(data, at + 2), _uint16(data, at + 6)
    weight = weight - 0x10000 if weight >= 0x8000 else weight
    if _uint16(data, at + 4) == _SIGN_NEGATIVE:
        out[to] = _MINUS
        to += 1
    if weight < 0:
        out[to] = _ZERO
        to += 1
    for index in range(weight + 1):
        to = _number(out, to, _group(data, at, digits, index), 4 if index else 1)
    if scale:
        out[to] = _DOT
        to += 1
        end = to + scale
        index = weight + 1
        while to < end:
            to = _number(out, to, _group(data, at, digits, index), 4)
            index += 1
        to = end
    return to


@kernel("int64(uint8[::1], int64, int64)")
def _numeric_room(data, at, length):  # type: ignore[no-untyped-def]
    """At most so many bytes of text, or -1 where it is no numeric."""
    if length < 8 or length != 8 + 2 * _uint16(data, at):
        return -1
    weight = _uint16(data, at + 2)
    weight = weight - 0x10000 if weight >= 0x8000 else weight
    return 16 + 4 * (max(weight, 0) + 1) + _uint16(data, at + 6)


@kernel(f"{_TEXTS}({_FIELDS})", allocates=True)
def numerics(data, offsets, lengths):  # type: ignore[no-untyped-def]
    count = offsets.size
    bounds, room, to = np.zeros(count + 1, np.int32), 0, 0
    for i in range(count):
        if lengths[i] >= 0:
            needed = _numeric_room(data, offsets[i], lengths[i])
            if needed < 0:
                return i, bounds, np.empty(0, np.uint8)
            room += needed
    out = np.empty(room, np.uint8)
    for i in range(count):
        if lengths[i] >= 0:
            sign = _uint16(data, offsets[i] + 4)
            if sign == _SIGN_NAN:
                to = _put(out, to, _NAN)
            elif sign in (_SIGN_INFINITY, _SIGN_MINUS_INFINITY):
                if sign == _SIGN_MINUS_INFINITY:
                    out[to] = _MINUS
                    to += 1
                to = _put(out, to, _NUMERIC_INFINITY)
            else:
                to = _numeric(data, offsets[i], out, to)
        bounds[i + 1] = to
    return -1, bounds, out[:to].copy()


@kernel(f"{_TEXTS}({_FIELDS})", allocates=True)
def moneys(data, offsets, lengths):  # type: ignore[no-untyped-def]
    """money where lc_monetary is C: -$1,234.50."""
    count = offsets.size
    bounds, out, to = np.zeros(count + 1, np.int32), np.empty(count * 32, np.uint8), 0
    for i in range(count):
        if lengths[i] >= 0:
            if lengths[i] != 8:
                return i, bounds, out
            cents = _integer(data, offsets[i], 8)
            if cents < 0:
                out[to] = _MINUS
                to += 1
            rest = np.uint64(cents) if cents >= 0 else ~np.uint64(cents) + np.uint64(1)
            out[to] = _DOLLAR
            to += 1
            whole, small = nb.int64(rest // np.uint64(100)), nb.int64(rest % np.uint64(100))
            power = 1
            while whole // power >= 1000:
                power *= 1000
            first = True
            while power >= 1:
                if not first:
                    out[to] = _COMMA
                    to += 1
                to = _number(out, to, whole // power % 1000, 1 if first else 3)
                first = False
                power //= 1000
            out[to] = _DOT
            to = _number(out, to + 1, small, 2)
        bounds[i + 1] = to
    return -1, bounds, out[:to].copy()


@kernel(f"{_TEXTS}({_FIELDS})", allocates=True)
def bits(data, offsets, lengths):  # type: ignore[no-untyped-def]
    """bit and varbit: a count, then the bits from the highest."""
    count = offsets.size
    bounds, room, to = np.zeros(count + 1, np.int32), 0, 0
    for i in range(count):
        if lengths[i] >= 0:
            if lengths[i] < 4:
                return i, bounds, np.empty(0, np.uint8)
            size = _integer(data, offsets[i], 4)
            if size < 0 or lengths[i] != 4 + (size + 7) // 8:
                return i, bounds, np.empty(0, np.uint8)
            room += size
    out = np.empty(room, np.uint8)
    for i in range(count):
        if lengths[i] >= 0:
            for j in range(_integer(data, offsets[i], 4)):
                out[to] = _ZERO + ((data[offsets[i] + 4 + j // 8] >> (7 - j % 8)) & 1)
                to += 1
        bounds[i + 1] = to
    return -1, bounds, out


@kernel("int64(uint8[::1], int64, uint8[::1], int64)")
def _ipv4(data, at, out, to):  # type: ignore[no-untyped-def]
    for j in range(4):
        if j:
            out[to] = _DOT
            to += 1
        to = _number(out, to, nb.int64(data[at + j]), 1)
    return to


@kernel("int64(uint8[::1], int64, int64)")
def _hexadecimal(out, to, word):  # type: ignore[no-untyped-def]
    digits = 1
    while word >> (4 * digits):
        digits += 1
    for j in range(digits):
        out[to + j] = _HEX[(word >> (4 * (digits - 1 - j))) & 15]
    return to + digits


@kernel("Tuple((int64, int64))(uint8[::1], int64)")
def _zeros(data, at):  # type: ignore[no-untyped-def]
    """The longest run of zero words, the first of equals, where it has two words or more: (first word, length)."""
    best, best_length, run = -1, 1, 0
    for word in range(8):
        run = run + 1 if _uint16(data, at + 2 * word) == 0 else 0
        if run > best_length:
            best, best_length = word - run + 1, run
    return best, best_length if best >= 0 else 0


@kernel("int64(uint8[::1], int64, uint8[::1], int64)")
def _ipv6(data, at, out, to):  # type: ignore[no-untyped-def]
    zeros, length = _zeros(data, at)
    word = 0
    while word < 8:
        if word == zeros:
            out[to] = _COLON
            to += 1
            word += length
            if word == 8:
                out[to] = _COLON
                to += 1
            continue
        if word:
            out[to] = _COLON
            to += 1
        if word == 6 and zeros == 0:  # an IPv4 address inside is written as one
            inner = length == 6 or (length == 7 and _uint16(data, at + 14) != 1)
            if inner or (length == 5 and _uint16(data, at + 10) == 0xFFFF):
                return _ipv4(data, at + 12, out, to)
        to = _hexadecimal(out, to, _uint16(data, at + 2 * word))
        word += 1
    return to


@kernel(f"{_TEXTS}({_FIELDS})", allocates=True)
def addresses(data, offsets, lengths):  # type: ignore[no-untyped-def]
    """inet and cidr: family, bits of the mask, whether cidr, length, address. An inet shows a mask that is not full."""
    count = offsets.size
    bounds, out, to = np.zeros(count + 1, np.int32), np.empty(count * 52, np.uint8), 0
    for i in range(count):
        if lengths[i] >= 0:
            at = offsets[i]
            if lengths[i] < 8:
                return i, bounds, out
            family, mask, size = data[at], nb.int64(data[at + 1]), nb.int64(data[at + 3])
            if lengths[i] != 4 + size or not ((family == _INET and size == 4) or (family == _INET6 and size == 16)):
                return i, bounds, out
            to = _ipv4(data, at + 4, out, to) if family == _INET else _ipv6(data, at + 4, out, to)
            if data[at + 2] or mask != 8 * size:
                out[to] = _SLASH
                to = _number(out, to + 1, mask, 1)
        bounds[i + 1] = to
    return -1, bounds, out[:to].copy()


@kernel(f"{_TEXTS}({_FIELDS})", allocates=True)
def hardware_addresses(data, offsets, lengths):  # type: ignore[no-untyped-def]
    """macaddr and macaddr8."""
    count = offsets.size
    bounds, out, to = np.zeros(count + 1, np.int32), np.empty(count * 24, np.uint8), 0
    for i in range(count):
        if lengths[i] >= 0:
            if lengths[i] != 6 and lengths[i] != 8:
                return i, bounds, out
            for j in range(lengths[i]):
                if j:
                    out[to] = _COLON
                    to += 1
                byte = data[offsets[i] + j]
                out[to], out[to + 1] = _HEX[byte >> 4], _HEX[byte & 15]
                to += 2
        bounds[i + 1] = to
    return -1, bounds, out[:to].copy()
