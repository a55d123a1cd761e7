"""CAST where both engines give the same value, by (from, to); PostgreSQL rounds to integers, Spark would cut off."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType, spark_type
from penstock.views import decimals
from penstock.views.expr import NUMERIC, TEXT, Call, Col, Expr, Lit, call, kind
from penstock.views.expressions.binder import Binder, Handler
from penstock.views.expressions.convert import convert, plain, typed
from penstock.views.expressions.sql import Sql, cast, fn, number, pg_cast

_ALIKE = {
    ("int", "int"), ("int", "float"), ("int", "text"), ("numeric", "float"), ("bool", "text"), ("text", "int"),
    ("text", "float"), ("text", "bool"), ("date", "text"), ("timestamp", "text"), ("uuid", "text"),
    ("date", "timestamp"), ("date", "timestamptz"), ("timestamp", "date"), ("timestamptz", "date"),
    ("timestamp", "timestamptz"), ("timestamptz", "timestamp"),
}  # fmt: skip
_VARCHAR = 1043
_JSON = (114, 3802)


def _bind_cast(binder: Binder, node: exp.Expr) -> Expr:
    arg, pg = binder.bind(node.this), binder.type_of(node)
    if isinstance(arg, Lit) and arg.bare:
        if kind(pg) in ("char", "opaque"):
            raise _refused(TEXT, pg)
        literal = typed(arg, _without_length(pg))
        return _limited(literal, pg) if kind(pg) in ("text", "numeric") else literal
    return cast_to(plain(arg), pg)


def cast_to(arg: Expr, pg: PgType) -> Expr:
    """The value as PostgreSQL's cast to `pg` gives it."""
    source, target, spark = kind(arg.pg), kind(pg), spark_type(pg.arrow)
    if "opaque" in (source, target):
        if (arg.pg.oid, arg.pg.typmod) == (pg.oid, pg.typmod):
            return arg
        if target == "text" and (arg.pg.plain.oid in _JSON or arg.pg.plain.kind == "e"):
            return _limited(call("convert", arg, pg=TEXT, spark="string"), pg)  # held as the text that it is cast to
        raise _refused(arg.pg, pg)
    if source == target == "text":
        return _limited(arg, pg)
    if target == "numeric" and source in ("int", "numeric", "text"):
        return _to_numeric(arg, pg)
    if source == target == "float":
        if arg.pg.oid == 701 and pg.oid == 700:
            raise _refused(arg.pg, pg)  # PostgreSQL refuses what overflows, Spark makes it infinite
        return convert(arg, pg, spark)
    if source == target:
        return convert(arg, pg, spark)
    if target == "int" and source in ("numeric", "float"):
        return call("round_to", arg, pg=pg, spark=spark)
    if (source, target) in (("bool", "int"), ("int", "bool")) and 23 in (arg.pg.oid, pg.oid):
        return call("convert", arg, pg=pg, spark=spark)
    if source == "numeric" and target == "text" and _known_scale(arg):
        return _limited(call("convert", arg, pg=TEXT), pg)
    if (source, target) in _ALIKE:
        return _limited(call("convert", arg, pg=pg, spark=spark), pg)
    raise _refused(arg.pg, pg)


def _to_numeric(arg: Expr, pg: PgType) -> Expr:
    if pg.decimal is not None:
        return call("convert", arg, pg=pg, spark=spark_type(pg.arrow))
    if kind(arg.pg) == "text" or pg.typmod >= 4:
        raise _refused(arg.pg, pg)
    return convert(arg, NUMERIC, decimals.name(decimals.decimal_of(arg.spark)))


def _limited(arg: Expr, pg: PgType) -> Expr:
    """varchar(n) cuts what is longer."""
    if pg.oid == _VARCHAR and pg.typmod >= 4:
        return call("substring", arg, pg=pg, spark="string", detail=f"1,{pg.typmod - 4}")
    if pg.oid == NUMERIC.oid and pg.decimal is not None:
        return call("convert", arg, pg=pg, spark=spark_type(pg.arrow))
    return arg


def _without_length(pg: PgType) -> PgType:
    return TEXT if kind(pg) == "text" else NUMERIC if pg.oid == NUMERIC.oid else pg


def _known_scale(arg: Expr) -> bool:
    """PostgreSQL prints a numeric with the digits it was computed with; they are known for a declared scale."""
    return isinstance(arg, (Col, Call)) and arg.pg.decimal is not None


def _refused(source: PgType, target: PgType) -> UnsupportedQuery:
    return UnsupportedQuery(
        f"a cast from {source.name} to {target.name} is not supported in a view",
        hint="PostgreSQL and Spark give different values for it. docs/dialect.md lists the casts that agree.",
    )


def _round_spark(e: Call, value: Sql) -> Sql:
    rounded = fn("RINT", value) if kind(e.args[0].pg) == "float" else fn("ROUND", value, number("0"))
    return cast(rounded, e.spark)


BIND: dict[type[exp.Expr], Handler] = {exp.Cast: _bind_cast}
SPARK = {"convert": lambda e, a: cast(a, e.spark), "round_to": _round_spark}
POSTGRES = {"convert": lambda e, a: pg_cast(a, e.pg.name), "round_to": lambda e, a: pg_cast(a, e.pg.name)}
