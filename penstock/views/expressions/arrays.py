"""ARRAY[a, b]: a list of values of one type, held as one."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.views.expr import Call, Expr, call, kind
from penstock.views.expressions.binder import Binder, Handler, refuse_types, refused
from penstock.views.expressions.convert import common
from penstock.views.expressions.sql import Sql, cast, fn, pg_cast
from penstock.views.typer import type_name


def _bind_array(binder: Binder, node: exp.Expr) -> Expr:
    if not node.expressions or any(isinstance(one, exp.Array) for one in node.expressions):
        raise refused(node)
    args = common([binder.bind(one) for one in node.expressions], "ARRAY")
    if kind(args[0].pg) in ("opaque", "char"):
        raise refuse_types("ARRAY", args)
    pg = replace(binder.type_of(node), kind="b", element=args[0].pg)
    return call("array", *args, pg=pg, spark=f"array<{args[0].spark}>")


def _postgres_array(e: Call, *args: Sql) -> Sql:
    return pg_cast(exp.Array(expressions=list(args)), type_name(e.pg))


BIND: dict[type[exp.Expr], Handler] = {exp.Array: _bind_array}
SPARK = {"array": lambda e, *args: cast(fn("ARRAY", *args), e.spark)}
POSTGRES = {"array": _postgres_array}
