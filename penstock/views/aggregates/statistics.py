"""variance and stddev of exact numbers from their sums and sums of squares; of floats, and all that relates two
columns, from the rows of the group.

PostgreSQL's rules: NULL over too few values, pairs with a NULL do not count, an infinity makes NaN.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.views import decimals
from penstock.views.aggregates.calls import Bound
from penstock.views.aggregates.linear import total
from penstock.views.aggregates.memory import Arguments, MeasureSql, Memory, Reader
from penstock.views.algebra import Measure
from penstock.views.expr import BOOL, FLOAT8, INT4, INT8, NUMERIC, Expr, call, kind, lit
from penstock.views.expressions.arithmetic import arithmetic
from penstock.views.expressions.binder import refuse_types
from penstock.views.expressions.conditional import empty_or
from penstock.views.expressions.convert import convert, plain
from penstock.views.expressions.sql import Sql, binary, case, cast, distinct_fn, fn, number

_SPREADS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
_PAIRS = (
    "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy", "regr_sxx",
    "regr_syy", "regr_sxy",
)  # fmt: skip


def _spread(how: str) -> Reader:
    def read(memory: Memory, found: Bound) -> Expr:
        found.only(arguments=1)
        arg = found.arg
        if kind(arg.pg) == "float":
            return memory.measure(how, convert(arg, FLOAT8, "double"), FLOAT8, distinct=found.distinct)
        if kind(arg.pg) not in ("int", "numeric"):
            raise refuse_types(how, (arg,))
        return _exact(how, memory, arg, distinct=found.distinct)

    return read


def _exact(how: str, memory: Memory, arg: Expr, *, distinct: bool) -> Expr:
    """(n·Σx² − (Σx)²) / (n·(n − 1)), or / n² for the whole population."""
    n = memory.nonnull(arg, distinct=distinct)
    wide = convert(arg, NUMERIC, decimals.name(decimals.decimal_of(arg.spark)))
    square = arithmetic("mul", wide, wide, NUMERIC)
    # Of DISTINCT values each is squared once: those of x and of −x are two, though they are equal.
    each = {"distinct": True, "more": (arg,)} if distinct else {}
    squares = memory.measure("sum", square, NUMERIC, _widest(square), **each)
    sums = convert(total(memory, arg, distinct=distinct), NUMERIC, _widest(wide))
    above = arithmetic("sub", arithmetic("mul", squares, n, NUMERIC), arithmetic("mul", sums, sums, NUMERIC), NUMERIC)
    least = 0 if how.endswith("pop") else 1
    other = n if least == 0 else arithmetic("sub", n, lit(1, INT8), INT8)
    variance = arithmetic("div", above, arithmetic("mul", n, other, INT8), NUMERIC)
    return empty_or(variance if how.startswith("var") else _root(variance), n, lit(least, INT4))


def _root(value: Expr) -> Expr:
    """The square root to sixteen digits: that of a double, and a step of Newton's from there."""
    near = call("root", value, pg=NUMERIC, spark="decimal(30,12)")
    twice = arithmetic("add", near, arithmetic("div", value, near, NUMERIC), NUMERIC)
    nearer = arithmetic("div", twice, lit(2, INT4), NUMERIC)
    some = call("compare", near, lit(0, NUMERIC, near.spark), pg=BOOL, detail=">")
    return call("case", some, nearer, convert(lit(0, INT4), NUMERIC, nearer.spark), pg=NUMERIC, spark=nearer.spark)


def _widest(expr: Expr) -> str:
    return decimals.name((decimals.MAX, decimals.decimal_of(expr.spark)[1]))


def _pair(how: str) -> Reader:
    """Of two columns, y before x: a row where one of them is NULL does not count."""

    def read(memory: Memory, found: Bound) -> Expr:
        y, x = _paired(found)
        if found.distinct:
            raise refuse_types(f"{how}(DISTINCT)", found.args)
        return memory.measure(how, y, FLOAT8, more=(x,))

    return read


def _pairs(memory: Memory, found: Bound) -> Expr:
    y, x = _paired(found)
    if found.distinct:
        raise refuse_types("regr_count(DISTINCT)", found.args)
    both = call("case", call("not", call("is_null", y, pg=BOOL), pg=BOOL), x, pg=x.pg, spark=x.spark)
    return memory.nonnull(both)


def _paired(found: Bound) -> tuple[Expr, Expr]:
    found.only(arguments=2)
    y, x = (plain(arg) for arg in found.args)
    if not {kind(y.pg), kind(x.pg)} <= {"int", "numeric", "float"}:
        raise refuse_types(found.function, found.args)
    return found.kept(convert(y, FLOAT8, "double")), found.kept(convert(x, FLOAT8, "double"))


def _function(measure: Measure, given: Arguments) -> Sql:
    return fn(measure.how.upper(), given.arg, *given.more)


def _spread_function(measure: Measure, given: Arguments) -> Sql:
    return distinct_fn(measure.how.upper(), given.arg, distinct=measure.distinct)


def _spark_pair(measure: Measure, given: Arguments) -> Sql:
    """From the sums of squares and products where they divide: PostgreSQL has no slope and no correlation of what does
    not vary, and Spark's own would divide by zero before any CASE around them is asked."""

    def of(name: str) -> Sql:
        return fn(name, given.arg.copy(), *(more.copy() for more in given.more))

    sxx, syy, sxy = (of(name) for name in ("REGR_SXX", "REGR_SYY", "REGR_SXY"))
    flat_x, flat_y = (binary("=", sums, number("0")) for sums in (sxx, syy))
    slope = binary("/", sxy.copy(), sxx.copy())
    squares = binary("*", sxx.copy(), syy.copy())
    match measure.how:
        case "regr_slope":
            return case((flat_x, exp.Null()), default=slope)
        case "regr_intercept":
            rise = binary("*", slope, of("REGR_AVGX"))
            return case((flat_x, exp.Null()), default=binary("-", of("REGR_AVGY"), rise))
        case "regr_r2":
            explained = binary("/", binary("*", sxy, sxy.copy()), squares)
            return case((flat_x, exp.Null()), (flat_y, cast(number("1"), "double")), default=explained)
        case "corr":
            related = binary("/", sxy, fn("SQRT", squares))
            return case((flat_x, exp.Null()), (flat_y, exp.Null()), default=related)
        case _:
            return of(measure.how.upper())


READERS: dict[str, Reader] = {
    **{how: _spread(how) for how in _SPREADS},
    **{how: _pair(how) for how in _PAIRS},
    "regr_count": _pairs,
}
SPARK: dict[str, MeasureSql] = {**dict.fromkeys(_SPREADS, _spread_function), **dict.fromkeys(_PAIRS, _spark_pair)}
POSTGRES: dict[str, MeasureSql] = {**dict.fromkeys(_SPREADS, _spread_function), **dict.fromkeys(_PAIRS, _function)}
