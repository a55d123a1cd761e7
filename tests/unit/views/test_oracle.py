"""Captured values are equal or they are not; only what a view divides or adds up as floats is given room."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views.approximate import Room
from penstock.views.expr import FLOAT4, FLOAT8, NUMERIC
from penstock.views.oracle import differing_rows, oracle_equal

THIRD, THIRD_HERE = Decimal("0.33333333333333333333"), Decimal("0.3333333333333333")
UNEQUAL = [
    (NUMERIC, Decimal("123456789012345678"), Decimal("123456789012345679.000000000000000000")),
    (NUMERIC, Decimal("0.0000000000000001"), Decimal("0.000000000000000200")),
    (NUMERIC, THIRD, THIRD_HERE),
    (FLOAT8, 1.0, 1.0 + 1e-12),
    (FLOAT8, math.nan, 1.0),
    (FLOAT4, 0.1, 0.10001),
    (FLOAT4, 0.1, 1e300),
]
EQUAL = [
    (NUMERIC, Decimal("5"), Decimal("5.000000000000000000")),
    (FLOAT8, math.nan, math.nan),
    (FLOAT8, -0.0, 0.0),
    (FLOAT8, math.inf, math.inf),
    (FLOAT4, 0.1, 0.10000000149011612),  # PostgreSQL prints the shortest text, Arrow gives the four bytes as a double
    (NUMERIC, None, None),
]


@pytest.mark.parametrize(("pg", "expected", "actual"), UNEQUAL)
def test_what_differs_is_told_apart(pg: PgType, expected: object, actual: object) -> None:
    column = Column.of("x", pg)
    assert not oracle_equal(expected, actual, column)
    assert differing_rows([(expected,)], [(actual,)], [column]) == ([(expected,)], [(actual,)])


@pytest.mark.parametrize("approximate", [{}, {"x": "quotient"}])
@pytest.mark.parametrize(("pg", "expected", "actual"), EQUAL)
def test_what_is_equal_stays_so(pg: PgType, expected: object, actual: object, approximate: dict[str, Room]) -> None:
    column = Column.of("x", pg)
    assert oracle_equal(expected, actual, column, approximate.get("x"))
    assert differing_rows([(expected,)], [(actual,)], [column], approximate) == ([], [])


def test_only_the_named_columns_are_given_room() -> None:
    columns = [Column.of("avg", NUMERIC), Column.of("f", FLOAT8), Column.of("kept", NUMERIC)]
    expected, actual = [(THIRD, 0.3, Decimal(1))] * 2, [(THIRD_HERE, 0.1 + 0.2, Decimal("1.0"))] * 2
    assert differing_rows(expected, actual, columns, {"avg": "quotient", "f": "quotient"}) == ([], [])
    assert differing_rows(expected, actual, columns, {"avg": "quotient"}) == (expected, actual)
    assert differing_rows(expected, actual[:1], columns, {"avg": "quotient", "f": "quotient"}) == (expected[:1], [])


def test_a_root_has_the_digits_of_what_it_is_the_root_of_and_a_quotient_more() -> None:
    column, given, here = Column.of("x", NUMERIC), Decimal("707108.37924787"), Decimal("707108.3792478730059983")
    assert oracle_equal(given, here, column, "root")
    assert not oracle_equal(given, here, column, "quotient")
    assert not oracle_equal(given, Decimal("707108.3792488730059983"), column, "root")
    assert not oracle_equal(Decimal("1.50"), Decimal("1.5100000000000000"), column, "root")


def test_a_large_quotient_keeps_sixteen_digits_and_a_wrong_one_shows() -> None:
    column, given = Column.of("x", NUMERIC), Decimal("123456789012.3333")
    assert oracle_equal(given, Decimal("123456789012.3333333333333333"), column, "quotient")
    assert not oracle_equal(given, Decimal("123456789012.3343333333333333"), column, "quotient")
