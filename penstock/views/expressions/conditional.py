"""CASE, COALESCE, NULLIF, GREATEST, LEAST: every branch converts to PostgreSQL's result type."""

from __future__ import annotations

from sqlglot import exp

from penstock.views.expr import BOOL, Call, Expr, call
from penstock.views.expressions.binder import Binder, Handler
from penstock.views.expressions.comparison import check_comparable, compare
from penstock.views.expressions.convert import common, fix
from penstock.views.expressions.sql import Sql, case, fn

_PICK: dict[type[exp.Expr], str] = {exp.Coalesce: "coalesce", exp.Greatest: "greatest", exp.Least: "least"}


def _bind_case(binder: Binder, node: exp.Expr) -> Expr:
    subject = node.args.get("this")
    conditions = [
        compare("=", binder.bind(subject), binder.bind(branch.this)) if subject else fix(binder.bind(branch.this), BOOL)
        for branch in node.args["ifs"]
    ]
    values = [binder.bind(branch.args["true"]) for branch in node.args["ifs"]]
    default = node.args.get("default")
    if default is not None and not isinstance(default, exp.Null):
        values.append(binder.bind(default))
    values = list(common(values, "CASE", binder.type_of(node)))
    pairs = [part for pair in zip(conditions, values, strict=False) for part in pair]
    return call("case", *pairs, *values[len(conditions) :], pg=binder.type_of(node), spark=values[0].spark)


def _bind_pick(binder: Binder, node: exp.Expr) -> Expr:
    op, pg = _PICK[type(node)], binder.type_of(node)
    args = common([binder.bind(arg) for arg in (node.this, *node.expressions)], op, pg)
    if op != "coalesce":
        check_comparable(op, args, ordered=True)
    return call(op, *args, pg=pg, spark=args[0].spark)


def _bind_nullif(binder: Binder, node: exp.Expr) -> Expr:
    pg = binder.type_of(node)
    value = fix(binder.bind(node.this), pg)
    equal = compare("=", value, binder.bind(node.expression))
    return call("nullif", equal, value, pg=value.pg, spark=value.spark)


def _case(e: Call, *args: Sql) -> Sql:
    default = args[-1] if len(args) % 2 else None
    return case(*zip(args[0::2], args[1::2], strict=False), default=default)


def _pick(e: Call, *args: Sql) -> Sql:
    if len(args) == 1:
        return args[0]
    return fn(e.op.upper(), *args)


def empty_or(measure: Expr, counted: Expr, zero: Expr) -> Expr:
    """`measure`, or NULL where nothing was counted."""
    some = call("compare", counted, zero, pg=BOOL, detail=">")
    return call("case", some, measure, pg=measure.pg, spark=measure.spark)


BIND: dict[type[exp.Expr], Handler] = {
    exp.Case: _bind_case,
    exp.Nullif: _bind_nullif,
    **dict.fromkeys(_PICK, _bind_pick),
}
SPARK = {
    "case": _case,
    "coalesce": _pick,
    "greatest": _pick,
    "least": _pick,
    "nullif": lambda e, equal, value: case((equal, exp.Null()), default=value),
}
POSTGRES = SPARK
