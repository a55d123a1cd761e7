"""What needs a group's values in order: string_agg, array_agg, json_agg, jsonb_object_agg, mode and percentiles.

Rows that ORDER BY leaves equal come in the order of their values (PostgreSQL: in any), so the result is always one.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views.aggregates.calls import Bound
from penstock.views.aggregates.memory import Arguments, MeasureSql, Memory, Reader
from penstock.views.algebra import Measure, Ordering
from penstock.views.expr import FLOAT8, TEXT, Expr, Lit, call, kind
from penstock.views.expressions.binder import refuse_types
from penstock.views.expressions.convert import convert, fix, plain
from penstock.views.expressions.json import json_key, json_value
from penstock.views.expressions.json_access import JSON, JSONB
from penstock.views.expressions.json_change import object_of
from penstock.views.expressions.sql import Sql, binary, case, cast, column, fn, is_null, number, pg_cast, string

_VALUE = "v"


def _string_agg(memory: Memory, found: Bound) -> Expr:
    found.only(arguments=2)
    if kind(found.arg.pg) != "text":
        raise refuse_types("string_agg", (found.arg,))
    between = found.args[1]
    if not isinstance(between, Lit):
        raise UnsupportedQuery("string_agg() needs a constant separator", hint="Write it as a literal: ', '.")
    return _collect(memory, found, "string_agg", found.arg, TEXT, detail=between.value or "")


def _array_agg(memory: Memory, found: Bound) -> Expr:
    found.only(arguments=1)
    arg = found.args[0]
    if kind(arg.pg) in ("opaque", "char") or (found.distinct and kind(arg.pg) == "float"):
        raise refuse_types("array_agg(DISTINCT)" if found.distinct else "array_agg", (arg,))
    arg = plain(arg)
    pg = replace(found.pg, kind="b", element=arg.pg)
    return _collect(memory, found, "array_agg", arg, pg, f"array<{arg.spark}>", where=found.where)


def _json_agg(memory: Memory, found: Bound) -> Expr:
    found.only(arguments=1)
    more = (json_value(fix(found.args[0], TEXT), binary=found.function == "jsonb_agg"),)
    arg, last = plain(found.args[0]), None
    if arg.pg.plain.oid in (JSON.oid, JSONB.oid):  # where ORDER BY leaves them equal, by their letters
        last = call("convert", arg, pg=TEXT, spark="string")
    return _collect(memory, found, found.function, arg, found.pg, "string", where=found.where, more=more, last=last)


def _json_object_agg(memory: Memory, found: Bound) -> Expr:
    found.only(arguments=2)
    if found.distinct:
        raise refuse_types(f"{found.function}(DISTINCT)", found.args)
    key, value = (fix(arg, TEXT) for arg in found.args)
    colon = Lit(" : " if found.function == "json_object_agg" else ": ", TEXT, "string")
    pair = call("pipe", call("pipe", json_key(key), colon, pg=TEXT), json_value(value), pg=TEXT)
    return _collect(memory, found, found.function, pair, found.pg, "string", where=found.where)


def _collect(
    memory: Memory, found: Bound, how: str, arg: Expr, pg: PgType, spark: str = "string", *,
    where: Expr | None = None, more: tuple[Expr, ...] = (), detail: str = "", last: Expr | None = None,
) -> Expr:  # fmt: skip
    order = found.order
    if found.distinct:  # PostgreSQL allows only the arguments there
        order = tuple(replace(item, expr=arg) for item in order[:1])
    if not any(item.expr == arg for item in order):
        order = (*order, Ordering(last or arg))
    return memory.measure(
        how, arg, pg, spark, distinct=found.distinct, order=order, where=where, more=more, detail=detail
    )  # fmt: skip


# Ordered sets: the values are what ORDER BY says, the argument is a constant ------------------------------------------


def _mode(memory: Memory, found: Bound) -> Expr:
    item = _sorted_by(found)
    if kind(item.expr.pg) in ("opaque", "bytea"):
        raise refuse_types("mode", (item.expr,))
    value = found.kept(item.expr)
    return memory.measure("mode", value, value.pg, value.spark, detail=_direction(item))


def _percentile_disc(memory: Memory, found: Bound) -> Expr:
    item = _sorted_by(found)
    if kind(item.expr.pg) in ("opaque", "bytea"):
        raise refuse_types("percentile_disc", (item.expr,))
    value = found.kept(item.expr)
    return memory.measure(
        "percentile_disc", value, value.pg, value.spark, detail=f"{_direction(item)} {_fraction(found)}"
    )


def _percentile_cont(memory: Memory, found: Bound) -> Expr:
    item = _sorted_by(found)
    if kind(item.expr.pg) not in ("int", "numeric", "float"):
        raise refuse_types("percentile_cont", (item.expr,))
    value = found.kept(convert(item.expr, FLOAT8, "double"))
    return memory.measure("percentile_cont", value, FLOAT8, detail=f"{_direction(item)} {_fraction(found)}")


def _sorted_by(found: Bound) -> Ordering:
    if len(found.order) != 1:
        raise refuse_types(f"{found.function} WITHIN GROUP of several columns", [item.expr for item in found.order])
    return found.order[0]


def _direction(item: Ordering) -> str:
    return "DESC" if item.descending else "ASC"


def _fraction(found: Bound) -> str:
    given = found.args[0] if found.args else None
    if not isinstance(given, Lit) or given.value is None or not 0 <= Decimal(given.value) <= 1:
        raise UnsupportedQuery(
            f"{found.function} needs one constant fraction between 0 and 1", hint="Write percentile_cont(0.5)."
        )
    return given.value


# Spark ----------------------------------------------------------------------------------------------------------------


def _values(measure: Measure, given: Arguments) -> Sql:
    """The values as a sorted array; NULLs are in it."""
    parts: list[Sql] = [string(_VALUE), given.more[0] if given.more else given.arg]
    places: list[str] = []
    for place, (item, sql) in enumerate(zip(measure.order, given.order, strict=True)):
        if item.expr == measure.arg and not given.more:
            places.append(_VALUE)
        else:
            places.append(f"o{place}")
            parts += [string(places[-1]), sql]
    collect = fn("COLLECT_SET" if measure.distinct else "COLLECT_LIST", fn("NAMED_STRUCT", *parts))
    if given.where is not None:
        collect = exp.Filter(this=collect, expression=exp.Where(this=given.where))
    before = _before(list(zip(places, measure.order, strict=True)))
    ordered = fn("ARRAY_SORT", collect, _lambda(before, "l", "r"))
    return fn("TRANSFORM", ordered, _lambda(column(_VALUE, "x"), "x"))


def _before(items: list[tuple[str, Ordering]]) -> Sql:
    """-1, 0 or 1 as array_sort wants it."""
    if not items:
        return number("0")
    (name, item), *rest = items
    left, right = column(name, "l"), column(name, "r")
    less, null = ("1", "-1") if item.descending else ("-1", "1"), ("-1", "1") if item.nulls_first else ("1", "-1")
    return case(
        (binary("<=>", left, right), _before(rest)),
        (is_null(left.copy()), number(null[0])),
        (is_null(right.copy()), number(null[1])),
        (binary("<", left.copy(), right.copy()), number(less[0])),
        default=number(less[1]),
    )


def _lambda(body: Sql, *names: str) -> Sql:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in names])


def _or_null(values: Sql, result: Sql) -> Sql:
    """NULL over no values."""
    return case((binary("=", fn("SIZE", values), number("0")), exp.Null()), default=result)


def _spark_string_agg(measure: Measure, given: Arguments) -> Sql:
    values = fn("FILTER", _values(measure, given), _lambda(exp.Not(this=is_null(column("y"))), "y"))
    return _or_null(values, fn("ARRAY_JOIN", values.copy(), string(measure.detail)))


def _spark_array_agg(measure: Measure, given: Arguments) -> Sql:
    values = _values(measure, given)
    return _or_null(values, values.copy())


def _spark_json(start: str, end: str) -> MeasureSql:
    def render(measure: Measure, given: Arguments) -> Sql:
        values = _values(measure, given)
        inside = fn("ARRAY_JOIN", values.copy(), string(", "))
        return _or_null(values, fn("CONCAT", string(start), inside, string(end)))

    return render


def _spark_object(measure: Measure, given: Arguments) -> Sql:
    values = _values(measure, given)
    return _or_null(values, object_of(values.copy()))


def _spark_sorted(given: Arguments, direction: str) -> Sql:
    return fn("SORT_ARRAY", fn("COLLECT_LIST", given.arg), exp.Boolean(this=direction == "ASC"))


def _spark_mode(measure: Measure, given: Arguments) -> Sql:
    """The most frequent value, the first in order of those that are equally so."""
    values = _spark_sorted(given, measure.detail)
    each = fn("ARRAY_DISTINCT", values.copy())
    times = fn("SIZE", fn("FILTER", values.copy(), _lambda(binary("=", column("z"), column("x")), "z")))
    # array_distinct keeps the order, and the first of equals wins: its place counts against it.
    place = fn("NAMED_STRUCT", string("n"), times, string("p"), exp.Neg(this=column("i")), string(_VALUE), column("x"))
    ranked = fn("ARRAY_MAX", fn("TRANSFORM", each, _lambda(place, "x", "i")))
    return exp.Dot(this=ranked, expression=exp.to_identifier(_VALUE))


def _spark_disc(measure: Measure, given: Arguments) -> Sql:
    direction, fraction = measure.detail.split(" ")
    values = _spark_sorted(given, direction)
    whole = fn("CEIL", binary("*", cast(string(fraction), "double"), fn("SIZE", values.copy())))
    place = fn("GREATEST", number("1"), cast(whole, "int"))
    return _or_null(values, fn("ELEMENT_AT", values.copy(), place))


def _spark_cont(measure: Measure, given: Arguments) -> Sql:
    direction, fraction = measure.detail.split(" ")
    values = _spark_sorted(given, direction)
    last = binary("-", fn("SIZE", values.copy()), number("1"))
    at = binary("*", cast(string(fraction), "double"), last)
    low, high = (
        fn("ELEMENT_AT", values.copy(), binary("+", cast(fn(name, at.copy()), "int"), number("1")))
        for name in ("FLOOR", "CEIL")
    )
    part = binary("-", at.copy(), fn("FLOOR", at.copy()))
    between = binary("+", low, binary("*", part, binary("-", high, low.copy())))
    whole = binary("=", fn("FLOOR", at.copy()), fn("CEIL", at.copy()))
    return case(
        (binary("=", fn("SIZE", values), number("0")), exp.Null()), (whole, low.copy()), default=between
    )  # fmt: skip


# PostgreSQL -----------------------------------------------------------------------------------------------------------


def _postgres_call(name: str, measure: Measure, given: Arguments, *more: Sql) -> Sql:
    arg: Sql = exp.Distinct(expressions=[given.arg]) if measure.distinct else given.arg
    items = [
        exp.Ordered(this=sql, desc=item.descending, nulls_first=item.nulls_first)
        for item, sql in zip(measure.order, given.order, strict=True)
    ]
    args = [arg, *more]
    args[-1] = exp.Order(this=args[-1], expressions=items)
    found: Sql = exp.Anonymous(this=name, expressions=args)
    return found if given.where is None else exp.Filter(this=found, expression=exp.Where(this=given.where))


def _postgres_json(measure: Measure, given: Arguments) -> Sql:
    if measure.arg is not None and measure.arg.pg.plain.oid in (JSON.oid, JSONB.oid):  # json is held as text
        given = replace(given, arg=pg_cast(given.arg, measure.arg.pg.plain.name))
    return pg_cast(
        _postgres_call(measure.how.upper(), measure, given), "jsonb" if measure.how == "jsonb_agg" else "text"
    )


def _postgres_object(measure: Measure, given: Arguments) -> Sql:
    inside = _postgres_call("STRING_AGG", measure, given, string(", "))
    return binary("||", binary("||", string("{ "), inside), string(" }"))


def _postgres_jsonb(measure: Measure, given: Arguments) -> Sql:
    inside = _postgres_call("STRING_AGG", measure, given, string(", "))
    return pg_cast(binary("||", binary("||", string("{"), inside), string("}")), "jsonb")


def _postgres_within(measure: Measure, given: Arguments) -> Sql:
    direction, _, fraction = measure.detail.partition(" ")
    found = fn(measure.how.upper(), *([number(fraction)] if fraction else []))
    item = exp.Ordered(this=given.arg, desc=direction == "DESC", nulls_first=direction == "DESC")
    return exp.WithinGroup(this=found, expression=exp.Order(expressions=[item]))


READERS: dict[str, Reader] = {
    "string_agg": _string_agg,
    "array_agg": _array_agg,
    "json_agg": _json_agg,
    "jsonb_agg": _json_agg,
    "json_object_agg": _json_object_agg,
    "jsonb_object_agg": _json_object_agg,
    "mode": _mode,
    "percentile_disc": _percentile_disc,
    "percentile_cont": _percentile_cont,
}
SPARK: dict[str, MeasureSql] = {
    "string_agg": _spark_string_agg,
    "array_agg": _spark_array_agg,
    "json_agg": _spark_json("[", "]"),
    "jsonb_agg": _spark_json("[", "]"),
    "json_object_agg": _spark_json("{ ", " }"),
    "jsonb_object_agg": _spark_object,
    "mode": _spark_mode,
    "percentile_disc": _spark_disc,
    "percentile_cont": _spark_cont,
}
POSTGRES: dict[str, MeasureSql] = {
    "string_agg": lambda measure, given: _postgres_call("STRING_AGG", measure, given, string(measure.detail)),
    "array_agg": lambda measure, given: _postgres_call("ARRAY_AGG", measure, given),
    "json_agg": _postgres_json,
    "jsonb_agg": _postgres_json,
    "json_object_agg": _postgres_object,
    "jsonb_object_agg": _postgres_jsonb,
    **dict.fromkeys(("mode", "percentile_disc", "percentile_cont"), _postgres_within),
}
