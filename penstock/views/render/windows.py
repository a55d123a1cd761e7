"""A window function in SQL: its order says where NULLs are, and goes on by all columns where equal rows matter."""

from __future__ import annotations

from sqlglot import exp

from penstock.views.algebra import Frame, Ordering, Window, WindowFunction, outputs
from penstock.views.expr import TEXT, kind
from penstock.views.expressions.sql import Sql, bare, fn
from penstock.views.render.block import Block
from penstock.views.render.dialect import Dialect


def window_function(function: WindowFunction, node: Window, block: Block, dialect: Dialect) -> Sql:
    args: list[Sql] = [dialect.expression(block.over(arg)) for arg in function.args]
    called = fn(function.op.upper(), *(args or ([exp.Star()] if function.op == "count" else [])))
    window = exp.Window(this=called, over="OVER")
    if node.partition:
        window.set("partition_by", [bare(dialect.expression(block.over(e))) for e in node.partition])
    order = [_ordered(one, block, dialect) for one in function.order]
    if function.ties:
        order += _by_all_columns(node, block, dialect)
    if order:
        window.set("order", exp.Order(expressions=order))
    if function.frame is not None:
        window.set("spec", _frame(function.frame))
    return dialect.cast(window, function.pg, function.spark)


def _ordered(order: Ordering, block: Block, dialect: Dialect) -> Sql:
    value = bare(dialect.expression(block.over(order.expr)))
    return exp.Ordered(this=value, desc=order.descending, nulls_first=order.nulls_first)


def _by_all_columns(node: Window, block: Block, dialect: Dialect) -> list[Sql]:
    """Any order that tells all rows apart: 0.0 and -0.0, and what has no order of its own, by their text."""
    found: list[Sql] = []
    for col in outputs(node.input):
        value = dialect.expression(block.over(col))
        if kind(col.pg) in ("opaque", "float"):
            value = dialect.cast(value, TEXT, "string")
        found.append(exp.Ordered(this=bare(value), desc=False, nulls_first=False))
    return found


def _frame(frame: Frame) -> Sql:
    return exp.WindowSpec(
        kind=frame.how,
        start=_place(frame.start[0]), start_side=frame.start[1] or None,
        end=_place(frame.end[0]), end_side=frame.end[1] or None,
    )  # fmt: skip


def _place(where: str) -> Sql | str:
    return exp.Literal.number(where) if where.isdigit() else where
