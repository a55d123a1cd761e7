"""Intervals as IntervalStyle postgres prints them, into their three fields: `-1 year 2 mons +3 days -00:00:01.5`."""

from __future__ import annotations

import numpy as np

from penstock.compiled import kernel

_ZERO, _NINE, _MINUS, _PLUS, _DOT, _COLON, _SPACE, _i, _y, _m, _d = (ord(c) for c in "09-+.: iymd")
_MAX32, _MIN32 = 2**31 - 1, -(2**31)
_MAX64, _MIN64 = np.int64(2**63 - 1), np.int64(-(2**63))


@kernel("Tuple((int64, int64))(uint8[::1], int64, int64)")
def _number(data, at, end):  # type: ignore[no-untyped-def]
    """Digits from `at`: (their value, where they end)."""
    value = 0
    while at < end and _ZERO <= data[at] <= _NINE:
        value = value * 10 + (data[at] - _ZERO)
        at += 1
    return value, at


@kernel("Tuple((int64, int64))(uint8[::1], int64, int64, int64)")
def _clock(data, at, end, hours):  # type: ignore[no-untyped-def]
    """What follows the hours: (microseconds, where it ends, -1 if it is no clock). The largest wraps to the least."""
    minutes, seconds, fraction = 0, 0, 0
    start = at + 1
    minutes, at = _number(data, start, end)
    if at != start + 2 or at >= end or data[at] != _COLON:
        return 0, -1
    start = at + 1
    seconds, at = _number(data, start, end)
    if at != start + 2:
        return 0, -1
    if at < end and data[at] == _DOT:
        start = at + 1
        fraction, at = _number(data, start, end)
        if at == start or at > start + 6:
            return 0, -1
        for _ in range(start + 6 - at):
            fraction *= 10
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction, at


@kernel("int64(uint8[::1], int64, int64)")
def _word(data, at, end):  # type: ignore[no-untyped-def]
    while at < end and data[at] != _SPACE:
        at += 1
    return at


@kernel(
    "int64(uint8[::1], int64[::1], int64[::1], int32[::1], int32[::1], int64[::1])",
    allocates=True,
)
def parse(data, offsets, lengths, months, days, micros):  # type: ignore[no-untyped-def]
    """The first field that is no interval, or -1. The infinities are the extremes of all three fields."""
    for row in range(offsets.size):
        months[row], days[row], micros[row] = 0, 0, 0
        at, end = offsets[row], offsets[row] + lengths[row]
        if lengths[row] < 0:
            continue
        if lengths[row] == 0:
            return row
        if data[at] == _i and lengths[row] == 8:  # infinity
            months[row], days[row], micros[row] = _MAX32, _MAX32, _MAX64
            continue
        if lengths[row] == 9 and data[at] == _MINUS and data[at + 1] == _i:
            months[row], days[row], micros[row] = _MIN32, _MIN32, _MIN64
            continue
        while at < end:
            negative = data[at] == _MINUS
            if negative or data[at] == _PLUS:
                at += 1
            start = at
            value, at = _number(data, start, end)
            if at == start or at >= end:
                return row
            if data[at] == _COLON:
                value, at = _clock(data, at, end, value)
                if at != end:
                    return row
                micros[row] = -value if negative else value
                continue
            value = -value if negative else value
            unit = data[at + 1] if at + 1 < end else 0
            if data[at] != _SPACE or unit not in (_y, _m, _d):
                return row
            if unit == _d:
                days[row] = value
            else:
                months[row] += value * 12 if unit == _y else value
            at = _word(data, at + 1, end) + 1
    return -1
