"""Comparisons and logic: operands meet in one type; text compares by its bytes (C order), NaN is the greatest float."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.views.expr import BOOL, TEXT, Call, Col, Expr, call, kind
from penstock.views.expressions.arrays import array as held_as_list
from penstock.views.expressions.arrays import element_of
from penstock.views.expressions.binder import Binder, Handler, refuse_types
from penstock.views.expressions.convert import common, fix, plain
from penstock.views.expressions.sql import Sql, binary, chain, column, fn, is_null, negation

_EQUALITY: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "IS DISTINCT",
}
_ORDER: dict[type[exp.Expr], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_SIGNS = {**_EQUALITY, **_ORDER}


def _bind_comparison(binder: Binder, node: exp.Expr) -> Expr:
    sign = _SIGNS[type(node)]
    if isinstance(node.expression, (exp.Any, exp.All)):
        return _of_array(binder, node, sign)
    return compare(sign, binder.bind(node.this), binder.bind(node.expression), ordered=type(node) in _ORDER)


def compare(sign: str, left: Expr, right: Expr, *, ordered: bool = False) -> Expr:
    a, b = common((left, right), sign)
    check_comparable(sign, (a, b), ordered=ordered)
    return call("compare", a, b, pg=BOOL, detail=sign)


def _of_array(binder: Binder, node: exp.Expr, sign: str) -> Expr:
    """`x = ANY (a)`: the value takes the type of the elements."""
    value, array = binder.bind(node.this), binder.bind(node.expression.this)
    one = Col("", *element_of(held_as_list(array, f"{sign} ANY"), TEXT))
    found = compare(sign, value, one, ordered=type(node) in _ORDER)
    assert isinstance(found, Call)
    if found.args[1] != one:
        raise refuse_types(f"{sign} ANY", (value, array))
    op = "any_of" if isinstance(node.expression, exp.Any) else "all_of"
    return call(op, found.args[0], array, pg=BOOL, detail=sign)


def check_comparable(what: str, args: Sequence[Expr], *, ordered: bool) -> None:
    """What is held as text, a list or a struct has no order here, and is equal only where equal values look alike."""
    if any(kind(arg.pg) == "opaque" and (ordered or not arg.pg.equal_as_held) for arg in args):
        raise refuse_types(what, args)


def _bind_logic(binder: Binder, node: exp.Expr) -> Expr:
    op = "and" if isinstance(node, exp.And) else "or"
    return call(op, _truth(binder, node.this), _truth(binder, node.expression), pg=BOOL)


def _bind_not(binder: Binder, node: exp.Expr) -> Expr:
    return call("not", _truth(binder, node.this), pg=BOOL)


def _truth(binder: Binder, node: exp.Expr) -> Expr:
    return fix(binder.bind(node), BOOL)


def _bind_is(binder: Binder, node: exp.Expr) -> Expr:
    value = binder.bind(node.this)
    if isinstance(node.expression, exp.Null):
        found: Expr = call("is_null", plain(value), pg=BOOL)
    else:
        found = compare("<=>", value, binder.bind(node.expression))  # IS TRUE, IS FALSE
    return call("not", found, pg=BOOL) if node.args.get("negate") else found


def _bind_between(binder: Binder, node: exp.Expr) -> Expr:
    value = binder.bind(node.this)
    low = compare(">=", value, binder.bind(node.args["low"]), ordered=True)
    high = compare("<=", value, binder.bind(node.args["high"]), ordered=True)
    return call("and", low, high, pg=BOOL)


def _bind_in(binder: Binder, node: exp.Expr) -> Expr:
    value = binder.bind(node.this)
    listed = [binder.bind(item) for item in node.args.get("expressions") or ()]
    args = common((value, *listed), "IN")
    check_comparable("IN", args, ordered=False)
    return call("in", *args, pg=BOOL)


def all_of(conditions: Sequence[Expr]) -> Expr:
    """The conjunction of at least one condition."""
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = call("and", whole, condition, pg=BOOL)
    return whole


def _in(e: Call, value: Sql, *items: Sql) -> Sql:
    return exp.Paren(this=exp.In(this=value, expressions=list(items)))


def _spark_each(name: str) -> Callable[..., Sql]:
    """NULL where no element decides and one is NULL, as in PostgreSQL."""

    def render(e: Call, value: Sql, array: Sql) -> Sql:
        return fn(
            name, array, exp.Lambda(this=binary(e.detail, value, column("e")), expressions=[exp.to_identifier("e")])
        )

    return render


def _postgres_each(name: str) -> Callable[..., Sql]:
    return lambda e, value, array: binary(e.detail, value, fn(name, array))


BIND: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_SIGNS, _bind_comparison),
    exp.And: _bind_logic,
    exp.Or: _bind_logic,
    exp.Not: _bind_not,
    exp.Is: _bind_is,
    exp.Between: _bind_between,
    exp.In: _bind_in,
}
SPARK = {
    "compare": lambda e, a, b: negation(binary("<=>", a, b)) if e.detail == "IS DISTINCT" else binary(e.detail, a, b),
    "and": lambda e, a, b: chain("AND", a, b),
    "or": lambda e, a, b: chain("OR", a, b),
    "not": lambda e, a: negation(a),
    "is_null": lambda e, a: is_null(a),
    "in": _in,
    "any_of": _spark_each("EXISTS"),
    "all_of": _spark_each("FORALL"),
}
POSTGRES = {
    **SPARK,
    "compare": lambda e, a, b: binary(e.detail, a, b),
    "any_of": _postgres_each("ANY"),
    "all_of": _postgres_each("ALL"),
}
