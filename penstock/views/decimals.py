"""Spark's result types for exact numbers, with `spark.sql.decimalOperations.allowPrecisionLoss=false`.

Sums, differences and products are exact or an error. A quotient has 16 digits after the point: `division` finds operand
types for which Spark itself rounds there (half up, as PostgreSQL does), because rounding twice could differ.
"""

from __future__ import annotations

from functools import lru_cache

MAX = 38
QUOTIENT_SCALE = 16
_INTS = {"smallint": 5, "int": 10, "bigint": 19}

Dec = tuple[int, int]  # precision, scale


def decimal_of(spark: str) -> Dec:
    """The decimal that holds every value of an exact type.

    >>> decimal_of("int"), decimal_of("decimal(12,2)")
    ((10, 0), (12, 2))
    """
    if spark in _INTS:
        return _INTS[spark], 0
    precision, scale = spark.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)


def name(dec: Dec) -> str:
    return f"decimal({dec[0]},{dec[1]})"


def bounded(precision: int, scale: int) -> Dec:
    return max(1, min(precision, MAX)), min(scale, MAX)


def add(a: Dec, b: Dec) -> Dec:
    scale = max(a[1], b[1])
    return bounded(max(a[0] - a[1], b[0] - b[1]) + scale + 1, scale)


def multiply(a: Dec, b: Dec) -> Dec:
    return bounded(a[0] + b[0] + 1, a[1] + b[1])


def remainder(a: Dec, b: Dec) -> Dec:
    scale = max(a[1], b[1])
    return bounded(min(a[0] - a[1], b[0] - b[1]) + scale, scale)


def wider(a: Dec, b: Dec) -> Dec:
    """The type both convert to where no operator changes the value: CASE, COALESCE, UNION ALL, comparison."""
    scale = max(a[1], b[1])
    return bounded(max(a[0] - a[1], b[0] - b[1]) + scale, scale)


def divide(a: Dec, b: Dec) -> Dec:
    whole = min(MAX, a[0] - a[1] + b[1])
    fraction = min(MAX, max(6, a[1] + b[0] + 1))
    excess = whole + fraction - MAX
    if excess > 0:
        fraction -= excess // 2 + 1
        whole = MAX - fraction
    return bounded(whole + fraction, fraction)


@lru_cache(maxsize=1024)
def division(a: Dec, b: Dec) -> tuple[Dec, Dec, Dec]:
    """Types to cast dividend and divisor to, and the quotient's type: scale 16 if any operand types give it.

    >>> division((19, 0), (19, 0))  # an average of integers
    ((24, 0), (19, 0), (38, 16))
    """
    return max(_candidates(a, b), key=lambda found: _preference(a, b, *found))


def _candidates(a: Dec, b: Dec) -> list[tuple[Dec, Dec, Dec]]:
    found = []
    for b_scale in range(b[1], max(a[1], b[1]) + 1):
        for a_precision in range(a[1] + 1, MAX + 1):
            for b_precision in range(b_scale + 1, MAX + 1):
                dividend, divisor = (a_precision, a[1]), (b_precision, b_scale)
                quotient = divide(dividend, divisor)
                if quotient[1] >= QUOTIENT_SCALE:
                    found.append((dividend, divisor, quotient))
    return found


def _preference(a: Dec, b: Dec, dividend: Dec, divisor: Dec, quotient: Dec) -> tuple[int, ...]:
    """One rounding if twelve digits of divisor stay possible, then room for whole digits on both sides."""
    lost_a = max(0, (a[0] - a[1]) - (dividend[0] - dividend[1]))
    lost_b = max(0, (b[0] - b[1]) - (divisor[0] - divisor[1]))
    room = min(dividend[0] - dividend[1], 20) + min(divisor[0] - divisor[1], 15)
    whole = quotient[0] - quotient[1]
    once = quotient[1] == QUOTIENT_SCALE and divisor[0] - divisor[1] >= min(b[0] - b[1], 12)
    return (int(once), room, -lost_a - lost_b, whole, -quotient[1])
