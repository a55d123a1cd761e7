"""Grouping a Z-set in SQL: a row of weight w counts w times, so COUNT(*) is SUM(w) and SUM(x) is SUM(x·w)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.views.aggregates.memory import Arguments
from penstock.views.algebra import Group, Leaf, Measure, Node, Repeat, Shift
from penstock.views.expr import BOOL, INT4, INT8, Col, Expr, call, is_nullable, kind, lit
from penstock.views.expressions.sql import Sql, binary, case, chain, column, distinct_fn, fn, is_null, negation, number
from penstock.views.render.block import Block, Source, select, weight_of
from penstock.views.render.dialect import Dialect

if TYPE_CHECKING:
    from penstock.views.render.renderer import Renderer

_OLD, _NEW, _SIDE = "__old", "__new", "__side"


def grouped(block: Block, node: Group, dialect: Dialect) -> Block:
    keys = {name: block.over(expr) for name, expr in node.keys}
    measures = {m.name: _measure(block, m, dialect, lonely=not node.keys) for m in node.measures}
    having = None
    if node.keep == "changed":
        having = chain("OR", *(binary("<>", sql, number("0")) for sql in measures.values()))
    elif node.keep == "present" and node.keys:
        having = binary(">", measures[node.measures[0].name], number("0"))
    return Block(
        block.sources, keys, where=block.where, group=list(keys.values()), measures=measures, having=having,
    )  # fmt: skip


def netted(block: Block, dialect: Dialect) -> Block:
    total = fn("SUM", weight_of(block, dialect))
    return Block(
        block.sources, block.items, where=block.where, group=list(block.items.values()), total=total,
        having=binary(">", total.copy(), number("0")),
    )  # fmt: skip


def _measure(block: Block, measure: Measure, dialect: Dialect, *, lonely: bool) -> Sql:
    """A measure's SQL over a block; `lonely`: without keys there may be no row at all, and a sum of none is NULL."""
    weighted = bool(block.weight) or block.negative
    if measure.how in dialect.measures:
        assert not (weighted and measure.by_row), f"{measure.how} needs its rows one by one"
        return dialect.measures[measure.how](measure, _arguments(block, measure, dialect))
    if not weighted and measure.how == "rows":
        return fn("COUNT", exp.Star())
    if measure.how == "nonnull" and (measure.distinct or not weighted):
        return distinct_fn("COUNT", _arguments(block, measure, dialect).arg, distinct=measure.distinct)
    or_zero = lonely or _may_be_null(block, measure)
    if measure.distinct:
        added = distinct_fn("SUM", _addend(block.over(_arg(measure)), measure, dialect), distinct=True)
    else:
        added = fn("SUM", _contribution(block, measure, dialect))
    return _counted(added, dialect, measure, or_zero=or_zero)


def _arg(measure: Measure) -> Expr:
    assert measure.arg is not None
    return measure.arg


def _arguments(block: Block, measure: Measure, dialect: Dialect) -> Arguments:
    def sql(expr: Expr) -> Sql:
        return dialect.expression(block.over(expr))

    return Arguments(
        arg=sql(_arg(measure)),
        more=tuple(sql(expr) for expr in measure.more),
        order=tuple(sql(item.expr) for item in measure.order),
        where=None if measure.where is None else sql(measure.where),
    )


def _may_be_null(block: Block, measure: Measure) -> bool:
    return measure.how in ("sum", "fsum") and measure.arg is not None and is_nullable(block.over(measure.arg))


def _contribution(block: Block, measure: Measure, dialect: Dialect) -> Sql:
    """What one row of a Z-set adds to a measure; NULL where a sum is to skip it."""
    if measure.how == "rows":
        return weight_of(block, dialect)
    arg = block.over(_arg(measure))
    if measure.how == "nonnull":
        return case((is_null(dialect.expression(arg)), number("0")), default=weight_of(block, dialect))
    wide = _addend(arg, measure, dialect)
    return binary("*", wide, weight_of(block, dialect)) if block.weight or block.negative else wide


def _addend(arg: Expr, measure: Measure, dialect: Dialect) -> Sql:
    sql = dialect.expression(arg)
    return dialect.cast(sql, measure.column.pg, measure.column.spark) if _grows(arg, measure) else sql


def _grows(arg: Expr, measure: Measure) -> bool:
    """Integers add up in the sum's own type; a decimal's product with a weight is wide enough already."""
    return kind(arg.pg) == "int" and measure.column.spark != "bigint"


def _counted(total: Sql, dialect: Dialect, measure: Measure, *, or_zero: bool) -> Sql:
    column = measure.column
    if or_zero:
        total = fn("COALESCE", total, dialect.constant(lit(0, column.pg, column.spark)))
    # PostgreSQL sums bigint as numeric; Spark's sums already have the column's type, except of narrow decimals.
    if dialect.name == "postgres" or (column.spark.startswith("decimal") and measure.how == "sum"):
        total = dialect.cast(total, column.pg, column.spark)
    return total


def shifted(render: Renderer, node: Shift) -> Block:
    """Old and new totals of each group side by side, then one row of each, −1 and +1."""
    alias = render.alias("g")
    side = Col(_SIDE, INT8, "bigint", False, alias)
    retracted = call("compare", side, lit(0, INT4), pg=BOOL, detail="<")

    def either(measure: Measure) -> Expr:
        pg, spark = measure.column.pg, measure.column.spark
        old, new = (Col(f"{measure.name}{part}", pg, spark, measure.is_extreme, alias) for part in (_OLD, _NEW))
        return call("case", retracted, old, new, pg=pg, spark=spark)

    items: dict[str, Expr] = {key.name: Col(key.name, key.pg, key.spark, key.nullable, alias) for key in node.keys}
    items |= {measure.name: either(measure) for measure in node.measures}
    block = Block([Source(_totals(render, node), alias)], items, weight=[side])
    if node.keys:
        rows = items[node.measures[0].name]
        block.where.append(call("compare", rows, lit(0, INT4), pg=BOOL, detail=">"))
    return block


def _totals(render: Renderer, node: Shift) -> Sql:
    """Keys, old and new totals, and a row for each side."""
    dialect, alias = render.dialect, render.alias("u")
    both = exp.Union(
        this=select(_remembered(render, node), dialect, weighted=False),
        expression=select(_moved(render, node), dialect, weighted=False),
        distinct=False,
    )
    keys: dict[str, Expr] = {k.name: Col(k.name, k.pg, k.spark, k.nullable, alias) for k in node.keys}
    totals: dict[str, Sql] = {}
    for measure in node.measures:
        for name in (f"{measure.name}{_OLD}", f"{measure.name}{_NEW}"):
            if measure.is_extreme:
                totals[name] = fn(measure.how.upper(), column(name, alias))
            else:
                totals[name] = _counted(fn("SUM", column(name, alias)), dialect, measure, or_zero=False)
    changed = [_differ(m, totals[f"{m.name}{_OLD}"].copy(), totals[f"{m.name}{_NEW}"].copy()) for m in node.measures]
    source = Source(dialect.gathered(both), alias)
    block = Block([source], keys, group=list(keys.values()), measures=totals, having=chain("OR", *changed))
    return _two_rows(render, select(block, dialect, weighted=False), [*keys, *totals])


def _differ(measure: Measure, old: Sql, new: Sql) -> Sql:
    return negation(binary("<=>", old, new)) if measure.is_extreme else binary("<>", old, new)


def repeated(render: Renderer, node: Repeat) -> Block:
    """Each row as often as its weight says."""
    block = render.open_block(node.input)
    times = render.dialect.repeated(weight_of(block, render.dialect))
    given = Block(block.sources, block.items, where=block.where, measures={_SIDE: times})
    return render.over(select(given, render.dialect, weighted=False), node, weighted=False)


def _two_rows(render: Renderer, query: Sql, names: list[str]) -> Sql:
    """Each row twice, apart from its side. Of its own SELECT: Spark takes no generator beside an aggregate."""
    alias = render.alias("p")
    given = {name: column(name, alias) for name in names} | {_SIDE: render.dialect.both_sides()}
    return select(Block([Source(query, alias)], {}, measures=given), render.dialect, weighted=False)


def _remembered(render: Renderer, node: Shift) -> Block:
    """The state's rows, times their weight: in the old total and in the new one."""
    block = render.open_block(node.state)
    weight = weight_of(block, render.dialect)
    for measure in node.measures:
        value = render.dialect.expression(block.items.pop(measure.name))
        if not measure.is_extreme:
            value = binary("*", value, weight.copy())
        block.measures |= {f"{measure.name}{_OLD}": value, f"{measure.name}{_NEW}": value.copy()}
    return block


def _moved(render: Renderer, node: Shift) -> Block:
    """The change: nothing in the old total, all in the new one."""
    fused = isinstance(node.change, Group) and isinstance(node.state, Leaf) and node.state.read.kind == "state"
    block = _contributions(render, node.change) if fused else render.open_block(node.change)
    for measure in node.measures:
        value = block.measures.pop(measure.name, None)
        if value is None:
            value = render.dialect.expression(block.items.pop(measure.name))
        nothing = None if measure.is_extreme else 0
        zero = render.dialect.constant(lit(nothing, measure.column.pg, measure.column.spark))
        block.measures |= {f"{measure.name}{_OLD}": zero, f"{measure.name}{_NEW}": value}
    return block


def _contributions(render: Renderer, node: Node) -> Block:
    """A group's rows before they are added up: where the totals are made anyway, that is one exchange less."""
    assert isinstance(node, Group)
    dialect, block = render.dialect, render.open_block(node.input)
    measures: dict[str, Sql] = {}
    for measure in node.measures:
        value = _contribution(block, measure, dialect)
        if _may_be_null(block, measure):
            value = fn("COALESCE", value, dialect.constant(lit(0, measure.column.pg, measure.column.spark)))
        measures[measure.name] = value
    keys = {name: block.over(expr) for name, expr in node.keys}
    return Block(block.sources, keys, where=block.where, measures=measures)
