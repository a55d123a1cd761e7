"""PostgreSQL's text of a numeric into Decimal128: exact, or refused.

Arrow's cast from text is neither: it brings a value to the column's scale without looking whether it fits, gives what
is left of it modulo 2^128, and loses the value where there are too many digits behind the point.
"""

from __future__ import annotations

import numpy as np

from penstock.capture.kernels.binary import signed, times_plus
from penstock.compiled import kernel

_ZERO, _NINE, _MINUS, _DOT = (ord(c) for c in "09-.")
_NONE, _TEN = np.uint64(0), np.uint64(10)


@kernel("Tuple((uint64, uint64, boolean))(uint8[::1], int64, int64, int64)")
def _magnitude(data, at, end, scale):  # type: ignore[no-untyped-def]
    """Digits with or without a point, times 10^scale in 128 bits, and whether it can be held."""
    high, low, digits, left, behind = _NONE, _NONE, 0, scale, False
    while at < end:
        byte = data[at]
        at += 1
        if byte == _DOT and digits and not behind:
            behind = True
            continue
        if byte < _ZERO or byte > _NINE:
            return _NONE, _NONE, False
        digits += 1
        if behind and left == 0:  # a place that the column does not have
            if byte != _ZERO:
                return _NONE, _NONE, False
            continue
        high, low, over = times_plus(high, low, _TEN, np.uint64(byte - _ZERO))
        if over:
            return _NONE, _NONE, False
        left -= behind
    for _ in range(left):
        high, low, over = times_plus(high, low, _TEN, _NONE)
        if over:
            return _NONE, _NONE, False
    return high, low, digits > 0


@kernel("int64(uint8[::1], int64[::1], int64[::1], int64, uint64, uint64, uint64[:,::1])")
def parse(data, offsets, lengths, scale, limit_high, limit_low, out):  # type: ignore[no-untyped-def]
    """The first field that cannot be held below the limit 10^precision, or -1; 0 where NULL."""
    for row in range(offsets.size):
        out[row, 0], out[row, 1] = 0, 0
        if lengths[row] < 0:
            continue
        at, end = offsets[row], offsets[row] + lengths[row]
        negative = at < end and data[at] == _MINUS
        high, low, held = _magnitude(data, at + negative, end, scale)
        if held:
            low, high, held = signed(high, low, negative, limit_high, limit_low)
        if not held:
            return row
        out[row, 0], out[row, 1] = low, high
    return -1
