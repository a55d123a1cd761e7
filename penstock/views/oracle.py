"""When a row of a view equals PostgreSQL's answer to the same query on the same rows: `oracle_equal`, value by value.

Everything is exact except the columns that the caller names as approximate (see `approximate`): computed floats are
equal within 1e-9 of their size (1e-5 for real). Of quotients (avg, numeric division) PostgreSQL keeps 16 significant
digits or more and we 16 after the point: they are compared at the lesser scale, and may differ there by one unit.
A root (stddev) has the scale of what it is the root of, and so fewer digits: nine at least.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_float
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views.approximate import EXACT, Room
from penstock.views.expr import FLOAT4, kind

Row = tuple[Any, ...]
_SCALE = 15  # after the point: so many digits are those of a quotient, whatever its size
_LEAST_DIGITS = {"quotient": 15, "root": 8}


def oracle_equal(expected: Any, actual: Any, column: Column, room: Room | None = None) -> bool:
    """Whether `actual` is PostgreSQL's `expected`; `room` for values that are only about equal.

    >>> from penstock.views.expr import NUMERIC
    >>> third = Column.of("x", NUMERIC)
    >>> oracle_equal(Decimal("0.33333333333333333333"), Decimal("0.3333333333333333"), third, "quotient")
    True
    >>> oracle_equal(Decimal("0.33333333333333333333"), Decimal("0.3333333333333333"), third)
    False
    >>> oracle_equal(Decimal("5"), Decimal("5.00"), third), oracle_equal(None, Decimal(0), third)
    (True, False)
    """
    if room is None or expected is None or actual is None:
        return bool(_exact(expected, column) == _exact(actual, column))
    if isinstance(expected, float) or isinstance(actual, float):
        return _close(float(expected), float(actual), 1e-5 if column.pg.oid == FLOAT4.oid else 1e-9)
    if isinstance(expected, Decimal) and isinstance(actual, Decimal):
        return expected == actual or _same_quotient(expected, actual, _LEAST_DIGITS[room])
    return bool(expected == actual)


def _exact(value: Any, column: Column) -> Any:
    """The value such that == and hash() tell: NaN equals itself, and a real is what its four bytes hold."""
    if isinstance(value, list):
        return tuple(_exact(one, column) for one in value)
    if isinstance(value, dict):
        return tuple(_exact(one, column) for one in value.values())
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (float, Decimal)) and math.isnan(value):
        return "NaN"
    return c_float(value).value if isinstance(value, float) and _is_real(column.pg) else value


def _is_real(pg: PgType) -> bool:
    return (pg.plain.element or pg).plain.oid == FLOAT4.oid


def _close(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-300)


def _same_quotient(a: Decimal, b: Decimal, digits: int) -> bool:
    if not (a.is_finite() and b.is_finite()):
        return False
    scales = (-int(a.as_tuple().exponent), -int(b.as_tuple().exponent))
    scale = min(scales)
    if scales[0] == scales[1] and scale < _SCALE:
        return False
    with localcontext(prec=100):
        unit = Decimal(1).scaleb(-scale)
        if scale < _SCALE and unit > abs(a).scaleb(1 - digits):
            return False  # too few digits for a quotient: these are exact numbers, and they differ
        return abs(a.quantize(unit, ROUND_HALF_UP) - b.quantize(unit, ROUND_HALF_UP)) <= unit


def differing_rows(
    expected: Iterable[Row],
    actual: Iterable[Row],
    columns: Sequence[Column],
    approximate: Mapping[str, Room] = EXACT,
) -> tuple[list[Row], list[Row]]:
    """Rows only PostgreSQL has and rows only we have, as multisets. Both empty: the same.

    >>> from penstock.views.expr import INT4, FLOAT8
    >>> columns = [Column.of("a", INT4), Column.of("b", FLOAT8)]
    >>> differing_rows([(1, 0.1), (2, None)], [(2, None), (1, 0.1 + 1e-14), (1, 0.5)], columns, {"b": "quotient"})
    ([], [(1, 0.5)])
    >>> differing_rows([(1, 0.1)], [(1, 0.1 + 0.2)], columns)
    ([(1, 0.1)], [(1, 0.30000000000000004)])
    """
    loose = [i for i, c in enumerate(columns) if c.name in approximate and kind(c.pg) in ("float", "numeric")]
    exact = [i for i in range(len(columns)) if i not in loose]
    groups: dict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((expected, actual)):
        for row in rows:
            groups[tuple(_exact(row[i], columns[i]) for i in exact)][side].append(tuple(row))
    missing: list[Row] = []
    extra: list[Row] = []
    for wanted, found in groups.values():
        left = _unmatched(wanted, found, [(i, columns[i], approximate[columns[i].name]) for i in loose])
        missing += left[0]
        extra += left[1]
    return missing, extra


def _unmatched(
    wanted: list[Row], found: list[Row], loose: list[tuple[int, Column, Room]]
) -> tuple[list[Row], list[Row]]:
    """Both sides in the order of their approximate values, walked together; a row without its equal falls out."""

    def order(row: Row) -> tuple[tuple[int, Any], ...]:
        return tuple(_rank(row[i]) for i, *_ in loose)

    a, b = sorted(wanted, key=order), sorted(found, key=order)
    missing, extra, i, j = list[Row](), list[Row](), 0, 0
    while i < len(a) and j < len(b):
        if all(oracle_equal(a[i][p], b[j][p], column, room) for p, column, room in loose):
            i, j = i + 1, j + 1
        elif order(a[i]) < order(b[j]):
            missing.append(a[i])
            i += 1
        else:
            extra.append(b[j])
            j += 1
    return missing + a[i:], extra + b[j:]


def _rank(value: Any) -> tuple[int, Any]:
    """None first, NaN last, numbers by value."""
    if value is None:
        return 0, 0
    return (2, 0) if math.isnan(value) else (1, value)
