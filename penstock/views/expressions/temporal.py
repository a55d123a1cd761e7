"""Dates and times in UTC: shifts by constant intervals and multiples, differences of dates, truncation and fields."""

from __future__ import annotations

import re
from zoneinfo import available_timezones

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import spark_type
from penstock.views.expr import DATE, INT4, NUMERIC, TIMESTAMP, TIMESTAMPTZ, Call, Expr, call, kind
from penstock.views.expressions.binder import Binder, Handler, refuse_types, refused
from penstock.views.expressions.convert import convert
from penstock.views.expressions.sql import Sql, binary, cast, fn, number, string

_TIMES = ("timestamp", "timestamptz")
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d):(\d\d)")
# months, days, seconds of one unit
_UNITS = {
    "YEAR": (12, 0, 0), "MONTH": (1, 0, 0), "WEEK": (0, 7, 0), "DAY": (0, 1, 0),
    "HOUR": (0, 0, 3600), "MINUTE": (0, 0, 60), "SECOND": (0, 0, 1),
    "MON": (1, 0, 0), "MIN": (0, 0, 60), "SEC": (0, 0, 1),
}  # fmt: skip
_TRUNCATIONS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_FIELDS = {
    "YEAR": "YEAR", "QUARTER": "QUARTER", "MONTH": "MONTH", "WEEK": "WEEK", "DAY": "DAY", "DOY": "DOY",
    "ISODOW": "DAYOFWEEK_ISO", "ISOYEAR": "YEAROFWEEK", "HOUR": "HOUR", "MINUTE": "MINUTE",
}  # fmt: skip


def shift_time(binder: Binder, node: exp.Expr, op: str) -> Expr:
    """date ± integer, date − date, date or timestamp ± interval constant, or a multiple of one."""
    sign = {"add": 1, "sub": -1}.get(op)
    left, right = node.this, node.expression
    if sign == 1 and interval_of(left):
        left, right = right, left
    if interval_of(left) or sign is None:
        raise refused(node)
    if (found := interval_of(right)) is not None:
        return _shift_by_interval(binder, left, *found, sign)
    a, b = binder.bind(left), binder.bind(right)
    if sign == 1 and kind(a.pg) == "int":
        a, b = b, a
    if kind(a.pg) == "date" and kind(b.pg) == "int":
        return call("add_days" if sign == 1 else "sub_days", a, b, pg=DATE)
    if sign == -1 and kind(a.pg) == kind(b.pg) == "date":
        return call("days_between", a, b, pg=INT4)
    raise refuse_types("+" if sign == 1 else "-", (a, b))


def interval_of(node: exp.Expr) -> tuple[exp.Interval, exp.Expr | None] | None:
    """An interval constant, and how many of it: `3 * interval '1 day'`."""
    node = node.unnest()
    if isinstance(node, exp.Interval):
        return node, None
    if isinstance(node, exp.Mul):
        for one, other in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(found := one.unnest(), exp.Interval):
                return found, other
    return None


def _shift_by_interval(
    binder: Binder, value: exp.Expr, interval: exp.Interval, times: exp.Expr | None, sign: int
) -> Expr:
    arg = binder.bind(value)
    if kind(arg.pg) not in ("date", *_TIMES):
        raise refuse_types("adding an interval", (arg,))
    pg = TIMESTAMP if kind(arg.pg) == "date" else arg.pg
    months, days, seconds = parse_interval(interval)
    detail = ",".join(str(sign * part) for part in (months, days, seconds))
    shifted = convert(arg, pg, spark_type(pg.arrow))
    if times is None:
        return call("shift", shifted, pg=pg, detail=detail)
    count = binder.bind(times)
    if kind(count.pg) != "int" or count.spark == "bigint":
        raise refuse_types("times an interval", (count,))
    return call("shift", shifted, convert(count, INT4, "int"), pg=pg, detail=detail)


def parse_interval(interval: exp.Interval) -> tuple[int, int, int]:
    """Months, days and seconds of `interval '3 days'` and the like: one whole number of one unit, or several, and
    `02:30:00`, as PostgreSQL writes hours, minutes and seconds."""
    words = interval.this.name.split() if interval.this is not None else []
    clock = _CLOCK.fullmatch(words[-1]) if words else None
    if clock is not None:
        sign, hours, minutes, rest = clock.groups()
        words[-1:] = [f"{sign}{int(hours) * 3600 + int(minutes) * 60 + int(rest)}", "SECOND"]
    if interval.args.get("unit") is not None:
        words.append(interval.args["unit"].name)
    months = days = seconds = 0
    try:
        for count, unit in zip(words[0::2], words[1::2], strict=True):
            m, d, s = _UNITS[unit.upper().rstrip("S")]
            months, days, seconds = months + int(count) * m, days + int(count) * d, seconds + int(count) * s
    except (KeyError, ValueError):
        words = []
    if not words:
        raise UnsupportedQuery(
            f"the interval {interval.sql(dialect='postgres')} is not supported in a view",
            hint="Write whole numbers of years, months, weeks, days, hours, minutes or seconds.",
        )
    return months, days, seconds


def _bind_trunc(binder: Binder, node: exp.Expr) -> Expr:
    unit = node.args["unit"].name.upper()
    arg = binder.bind(node.this)
    if unit not in _TRUNCATIONS or kind(arg.pg) not in ("date", *_TIMES):
        raise UnsupportedQuery(
            f"date_trunc('{unit.lower()}', {arg.pg.name}) is not supported in a view",
            hint=f"Units: {', '.join(sorted(_TRUNCATIONS)).lower()}; of dates and timestamps, in UTC.",
        )
    pg = TIMESTAMPTZ if kind(arg.pg) == "date" else arg.pg
    return call("date_trunc", convert(arg, pg, spark_type(pg.arrow)), pg=pg, detail=unit)


def _bind_extract(binder: Binder, node: exp.Expr) -> Expr:
    field = node.this.name.upper()
    if field in ("EPOCH", "DAY") and (between := _between(binder, node.expression)) is not None:
        return between if field == "EPOCH" else _whole_days(between)
    arg = binder.bind(node.expression)
    if kind(arg.pg) not in ("date", *_TIMES) or binder.type_of(node).oid != NUMERIC.oid:
        raise refuse_types(f"extract({field.lower()})", (arg,))
    if field in ("HOUR", "MINUTE", "SECOND") and kind(arg.pg) == "date":
        raise refuse_types(f"extract({field.lower()})", (arg,))
    if field in _FIELDS or field == "DOW":
        return call("extract", arg, pg=NUMERIC, spark="decimal(10,0)", detail=field)
    if field == "SECOND":
        return call("extract", arg, pg=NUMERIC, spark="decimal(8,6)", detail=field)
    if field == "EPOCH":
        return call("epoch", arg, pg=NUMERIC, spark="decimal(25,6)")
    raise UnsupportedQuery(
        f"extract({field.lower()}) is not supported in a view",
        hint="Fields: year, isoyear, quarter, month, week, day, doy, dow, isodow, hour, minute, second, epoch.",
    )


def _between(binder: Binder, node: exp.Expr) -> Expr | None:
    """Seconds from one timestamp to another: the epoch of their difference, which is an interval."""
    node = node.unnest()
    if not isinstance(node, exp.Sub) or isinstance(node.expression, exp.Interval):
        return None
    args = [binder.bind(side) for side in (node.this, node.expression)]
    if kind(args[0].pg) not in _TIMES or kind(args[1].pg) not in _TIMES:
        return None
    ends = [convert(arg, TIMESTAMPTZ, "timestamp") for arg in args]
    return call("seconds_between", *ends, pg=NUMERIC, spark="decimal(25,6)")


def _whole_days(seconds: Expr) -> Expr:
    """The days of a difference of timestamps, which has no months: cut off towards 0."""
    return call("whole_days", seconds, pg=NUMERIC, spark="decimal(10,0)")


def _whole_days_spark(e: Call, seconds: Sql) -> Sql:
    rest = binary("%", seconds.copy(), cast(number("86400"), "decimal(25,6)"))
    return cast(binary("/", binary("-", seconds, rest), number("86400")), e.spark)


def _bind_zone(binder: Binder, node: exp.Expr) -> Expr:
    arg, zone = binder.bind(node.this), node.args["zone"]
    if kind(arg.pg) not in _TIMES or not zone.is_string:
        raise UnsupportedQuery("AT TIME ZONE needs a constant zone", hint="Write AT TIME ZONE 'Europe/Berlin'.")
    pg = TIMESTAMP if kind(arg.pg) == "timestamptz" else TIMESTAMPTZ
    if zone.name.upper() == "UTC":
        return call("convert", arg, pg=pg, spark=spark_type(pg.arrow))
    if kind(arg.pg) == "timestamp":
        raise UnsupportedQuery(
            "a timestamp without time zone AT TIME ZONE is supported for 'UTC' alone: of an hour that comes twice, one "
            "engine takes the first and the other the second",
            hint="Keep such times as timestamptz in the source.",
        )
    if zone.name not in available_timezones() or "/" not in zone.name:
        raise UnsupportedQuery(
            f"AT TIME ZONE '{zone.name}' is not supported in a view", hint="Name a place: 'Europe/Berlin'."
        )
    return call("local_time", arg, pg=pg, spark=spark_type(pg.arrow), detail=zone.name)


def _local_spark(e: Call, value: Sql) -> Sql:
    return fn("CONVERT_TIMEZONE", string("UTC"), string(e.detail), cast(value, "timestamp_ntz"))


def _between_spark(e: Call, a: Sql, b: Sql) -> Sql:
    micros = cast(binary("-", fn("UNIX_MICROS", a), fn("UNIX_MICROS", b)), "decimal(19,0)")
    return cast(binary("*", micros, number("0.000001")), e.spark)


def _interval_spark(e: Call, value: Sql, *times: Sql) -> Sql:
    return cast(exp.Paren(this=exp.Add(this=value, expression=made_interval(e.detail, *times))), e.spark)


def _interval_postgres(e: Call, value: Sql, *times: Sql) -> Sql:
    made = made_interval(e.detail)
    return binary("+", value, binary("*", made, times[0]) if times else made)


def made_interval(detail: str, *times: Sql) -> Sql:
    """`months,days,seconds`, as often as said."""
    parts = [binary("*", number(part), times[0].copy()) if times else number(part) for part in detail.split(",")]
    months, days, seconds = parts
    zero = number("0")
    return fn("MAKE_INTERVAL", zero, months, zero.copy(), days, zero.copy(), zero.copy(), seconds)


def _extract_spark(e: Call, value: Sql) -> Sql:
    if e.detail == "DOW":
        found: Sql = binary("-", exp.Extract(this=exp.var("DAYOFWEEK"), expression=value), number("1"))
    else:
        found = exp.Extract(this=exp.var(_FIELDS.get(e.detail, e.detail)), expression=value)
    return cast(found, e.spark)


def _epoch_spark(e: Call, value: Sql) -> Sql:
    micros = cast(fn("UNIX_MICROS", cast(value, "timestamp")), "decimal(19,0)")
    return cast(binary("*", micros, number("0.000001")), e.spark)


BIND: dict[type[exp.Expr], Handler] = {
    exp.TimestampTrunc: _bind_trunc,
    exp.Extract: _bind_extract,
    exp.AtTimeZone: _bind_zone,
}
SPARK = {
    "add_days": lambda e, a, b: fn("DATE_ADD", a, b),
    "sub_days": lambda e, a, b: fn("DATE_SUB", a, b),
    "days_between": lambda e, a, b: fn("DATEDIFF", a, b),
    "shift": _interval_spark,
    "date_trunc": lambda e, a: cast(fn("DATE_TRUNC", string(e.detail), a), e.spark),
    "extract": _extract_spark,
    "epoch": _epoch_spark,
    "seconds_between": _between_spark,
    "local_time": _local_spark,
    "whole_days": _whole_days_spark,
}
POSTGRES = {
    "add_days": lambda e, a, b: binary("+", a, b),
    "sub_days": lambda e, a, b: binary("-", a, b),
    "days_between": lambda e, a, b: binary("-", a, b),
    "shift": _interval_postgres,
    "date_trunc": lambda e, a: fn("DATE_TRUNC", string(e.detail), a),
    "extract": lambda e, a: _extract_postgres(e.detail, a),
    "epoch": lambda e, a: _extract_postgres("EPOCH", a),
    "whole_days": lambda e, a: fn("TRUNC", binary("/", a, number("86400"))),
    "local_time": lambda e, a: fn("TIMEZONE", string(e.detail), a),
    "seconds_between": lambda e, a, b: _extract_postgres("EPOCH", exp.Sub(this=a, expression=b)),
}


def _extract_postgres(field: str, value: Sql) -> Sql:
    return exp.Extract(this=exp.var(field), expression=value)
