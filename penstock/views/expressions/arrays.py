"""Arrays of one dimension that are held as lists: made, taken apart, compared by their elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType, spark_type
from penstock.views.expr import BOOL, INT4, TEXT, Call, Expr, call, kind
from penstock.views.expressions.binder import Binder, Handler, refuse_types, refused
from penstock.views.expressions.convert import common, plain
from penstock.views.expressions.sql import (
    Sql,
    binary,
    case,
    cast,
    chain,
    column,
    fn,
    is_null,
    negation,
    number,
    pg_cast,
)
from penstock.views.typer import type_name

# Binding --------------------------------------------------------------------------------------------------------------


def _bind_array(binder: Binder, node: exp.Expr) -> Expr:
    if not node.expressions or any(isinstance(one, exp.Array) for one in node.expressions):
        raise refused(node)
    args = common([binder.bind(one) for one in node.expressions], "ARRAY")
    if kind(args[0].pg) in ("opaque", "char"):
        raise refuse_types("ARRAY", args)
    pg = replace(binder.type_of(node), kind="b", element=args[0].pg)
    return call("array", *args, pg=pg, spark=f"array<{args[0].spark}>")


def element_of(array: Expr, told: PgType) -> tuple[PgType, str]:
    """The type of the elements, in PostgreSQL and in Spark; `told` where the array does not know."""
    held = array.spark[len("array<") : -1]
    pg = array.pg.plain.element or told
    if held == "string" and spark_type(pg.arrow) != "string":
        pg = replace(pg, in_text_form=True)
    return pg, held


def array(value: Expr, what: str) -> Expr:
    if not value.spark.startswith("array<"):
        raise UnsupportedQuery(
            f"{what} of {value.pg.name} is not supported in a view",
            hint="It works on arrays of one dimension that are held as lists.",
        )
    return value


def _bind_at(binder: Binder, node: exp.Expr) -> Expr:
    places = node.expressions
    if len(places) != 1 or not (isinstance(places[0], exp.Literal) and places[0].name.isdigit()):
        raise refused(node)
    value = array(binder.bind(node.this), "a[n]")
    pg, spark = element_of(value, binder.type_of(node))
    return call("array_at", value, pg=pg, spark=spark, detail=places[0].name)  # the parser counts from 0


def _bind_length(binder: Binder, node: exp.Expr) -> Expr:
    if node.expression is None or node.expression.name != "1":
        raise refused(node)
    return call("array_length", array(binder.bind(node.this), "array_length()"), pg=INT4)


def _bind_cardinality(binder: Binder, node: exp.Expr) -> Expr:
    (value,) = node.expressions
    return call("cardinality", array(binder.bind(value), "cardinality()"), pg=INT4)


def _bind_joined(binder: Binder, node: exp.Expr) -> Expr:
    value, between = array(binder.bind(node.this), "array_to_string()"), plain(binder.bind(node.expression))
    element, _ = element_of(value, TEXT)
    if kind(element) not in ("text", "int") or kind(between.pg) != "text":
        raise refuse_types("array_to_string()", (value, between))
    return call("array_to_string", value, between, pg=TEXT)


def _bind_overlap(binder: Binder, node: exp.Expr) -> Expr:
    return compared("array_overlap", "&&", binder.bind(node.this), binder.bind(node.expression))


def compared(op: str, sign: str, left: Expr, right: Expr) -> Expr:
    """Two arrays by their elements, which are of one type that has equality."""
    (a, held), (b, other) = (element_of(array(side, sign), TEXT) for side in (left, right))
    if held != other or kind(a) in ("opaque", "char") or kind(a) != kind(b):
        raise refuse_types(sign, (left, right))
    return call(op, left, right, pg=BOOL)


# Rendering ------------------------------------------------------------------------------------------------------------


def _postgres_array(e: Call, *args: Sql) -> Sql:
    return pg_cast(exp.Array(expressions=list(args)), type_name(e.pg))


def _postgres_at(e: Call, value: Sql) -> Sql:
    return exp.Bracket(this=exp.Paren(this=value), expressions=[number(e.detail)])


def _spark_length(e: Call, value: Sql) -> Sql:
    return case((binary(">", fn("SIZE", value), number("0")), fn("SIZE", value.copy())), default=exp.Null())


def _spark_cardinality(e: Call, value: Sql) -> Sql:
    return case((is_null(value), exp.Null()), default=fn("SIZE", value.copy()))


def _spark_joined(e: Call, value: Sql, between: Sql) -> Sql:
    return fn("ARRAY_JOIN", cast(value, "array<string>"), between)


def _spark_compared(name: str) -> Callable[..., Sql]:
    """NULL elements are equal to nothing."""

    def render(e: Call, left: Sql, right: Sql) -> Sql:
        there = fn("COALESCE", fn("ARRAY_CONTAINS", left, column("e")), exp.Boolean(this=False))
        found = chain("AND", negation(is_null(column("e"))), there)
        each = fn(name, right, exp.Lambda(this=found, expressions=[exp.to_identifier("e")]))
        return case((chain("OR", is_null(left.copy()), is_null(right.copy())), exp.Null()), default=each)

    return render


NAMED: dict[str, Callable[[Binder, exp.Expr], Expr]] = {"cardinality": _bind_cardinality}
BIND: dict[type[exp.Expr], Handler] = {
    exp.Array: _bind_array,
    exp.Bracket: _bind_at,
    exp.ArraySize: _bind_length,
    exp.ArrayToString: _bind_joined,
    exp.ArrayOverlaps: _bind_overlap,
}
SPARK = {
    "array": lambda e, *args: cast(fn("ARRAY", *args), e.spark),
    "array_at": lambda e, value: fn("GET", value, number(e.detail)),
    "array_length": _spark_length,
    "cardinality": _spark_cardinality,
    "array_to_string": _spark_joined,
    "array_contains": _spark_compared("FORALL"),
    "array_overlap": _spark_compared("EXISTS"),
}
POSTGRES = {
    "array": _postgres_array,
    "array_at": _postgres_at,
    "array_length": lambda e, value: fn("ARRAY_LENGTH", value, number("1")),
    "cardinality": lambda e, value: fn("CARDINALITY", value),
    "array_to_string": lambda e, value, between: fn("ARRAY_TO_STRING", value, between),
    "array_contains": lambda e, left, right: fn("ARRAYCONTAINS", left, right),
    "array_overlap": lambda e, left, right: fn("ARRAYOVERLAP", left, right),
}
