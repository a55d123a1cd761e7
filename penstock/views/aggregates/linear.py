"""count, sum, avg and the boolean ones: sums of what each row adds, so a change adds what its rows add.

Float sums are the exception: added and subtracted they drift, so their groups are computed again. DISTINCT values are
summed over the values of a group (`rewrites/distinct_aggregates.py`), or computed again where there are several.
"""

from __future__ import annotations

from penstock.views import decimals
from penstock.views.aggregates.calls import Bound
from penstock.views.aggregates.memory import MeasureSql, Memory, Reader
from penstock.views.expr import BOOL, FLOAT8, INT4, INT8, NUMERIC, Expr, call, kind, lit
from penstock.views.expressions.arithmetic import arithmetic
from penstock.views.expressions.binder import refuse_types
from penstock.views.expressions.conditional import empty_or
from penstock.views.expressions.convert import convert


def _count(memory: Memory, found: Bound) -> Expr:
    if not found.args:
        return memory.rows
    found.only(arguments=1)
    # char(n) counts its values, whatever their padding; only which of them are equal depends on it.
    arg = found.arg if found.distinct else found.kept(found.args[0])
    return memory.nonnull(arg, distinct=found.distinct)


def _sum(memory: Memory, found: Bound) -> Expr:
    total = _total(memory, found)
    if found.pg.oid == 700:
        total = convert(total, found.pg, "float")
    return _unless_empty(memory, found, total)


def _avg(memory: Memory, found: Bound) -> Expr:
    total, count = _total(memory, found), memory.nonnull(found.arg, distinct=found.distinct)
    return _unless_empty(memory, found, arithmetic("div", total, count, found.pg))


def _total(memory: Memory, found: Bound) -> Expr:
    found.only(arguments=1)
    return total(memory, found.arg, distinct=found.distinct)


def total(memory: Memory, arg: Expr, *, distinct: bool = False) -> Expr:
    if kind(arg.pg) == "float":
        return memory.measure("fsum", convert(arg, FLOAT8, "double"), FLOAT8, distinct=distinct)
    if kind(arg.pg) not in ("int", "numeric"):
        raise refuse_types("sum or avg", (arg,))
    if arg.spark in ("smallint", "int"):
        return memory.measure("sum", arg, INT8, distinct=distinct)
    shape = decimals.name((decimals.MAX, decimals.decimal_of(arg.spark)[1]))
    return memory.measure("sum", arg, NUMERIC, shape, distinct=distinct)


def _unless_empty(memory: Memory, found: Bound, result: Expr) -> Expr:
    """A sum over no value is NULL; in a group whose argument is never NULL that can only be the group of no rows."""
    return empty_or(result, memory.nonnull(found.arg, distinct=found.distinct), lit(0, INT4))


def _truth(which: str) -> Reader:
    """bool_and is true where no value is false, bool_or where some value is true; both NULL over no value."""

    def read(memory: Memory, found: Bound) -> Expr:
        found.only(arguments=1)
        value = found.arg
        deciding = call("not", value, pg=BOOL) if which == "and" else value
        decided = memory.nonnull(call("case", deciding, lit(1, INT4), pg=INT4))
        result = call("compare", decided, lit(0, INT8), pg=BOOL, detail="=" if which == "and" else ">")
        return empty_or(result, memory.nonnull(value), lit(0, INT4))

    return read


READERS: dict[str, Reader] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "bool_and": _truth("and"),
    "bool_or": _truth("or"),
}
SPARK: dict[str, MeasureSql] = {}
POSTGRES: dict[str, MeasureSql] = {}
