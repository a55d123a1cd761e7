"""min, max, bit_and, bit_or, bit_xor: a value made of the group's values alone, whatever their order."""

from __future__ import annotations

from penstock.views.aggregates.calls import Bound
from penstock.views.aggregates.memory import Arguments, MeasureSql, Memory, Reader
from penstock.views.algebra import Measure
from penstock.views.expr import Expr, kind
from penstock.views.expressions.binder import refuse_types
from penstock.views.expressions.sql import Sql, distinct_fn


def _extreme(how: str) -> Reader:
    def read(memory: Memory, found: Bound) -> Expr:
        found.only(arguments=1)
        arg = found.arg
        if kind(arg.pg) in ("opaque", "bool", "bytea"):
            raise refuse_types(how, (arg,))
        return memory.measure(how, arg, found.pg if kind(found.pg) == kind(arg.pg) else arg.pg, arg.spark)

    return read


def _bits(how: str) -> Reader:
    def read(memory: Memory, found: Bound) -> Expr:
        found.only(arguments=1)
        if kind(found.arg.pg) != "int":
            raise refuse_types(how, (found.arg,))
        distinct = found.distinct and how == "bit_xor"
        return memory.measure(how, found.arg, found.arg.pg, found.arg.spark, distinct=distinct)

    return read


def _function(measure: Measure, given: Arguments) -> Sql:
    return distinct_fn(measure.how.upper(), given.arg, distinct=measure.distinct)


READERS: dict[str, Reader] = {
    "min": _extreme("min"),
    "max": _extreme("max"),
    "bit_and": _bits("bit_and"),
    "bit_or": _bits("bit_or"),
    "bit_xor": _bits("bit_xor"),
}
SPARK: dict[str, MeasureSql] = dict.fromkeys(("min", "max", "bit_and", "bit_or", "bit_xor"), _function)
POSTGRES = SPARK
