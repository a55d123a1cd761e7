"""What each aggregate remembers, and how its result is read from that.

count(x) remembers the non-NULL count; sum and avg remember it and the sum; min and max the extreme. Results come
from what is remembered by one expression, so a retraction equals what was emitted, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.schema import Column
from penstock.relation.types import PgType, spark_type
from penstock.views import decimals
from penstock.views.algebra import Aggregate, Measure, Node, measured
from penstock.views.expr import FLOAT8, INT4, INT8, NUMERIC, Expr, is_nullable, kind, lit
from penstock.views.expressions.arithmetic import arithmetic
from penstock.views.expressions.binder import Binder, refuse_types
from penstock.views.expressions.conditional import empty_or
from penstock.views.expressions.convert import convert, fix, plain

ROWS = "_count"
Namer = Callable[..., str]
Reader = Callable[["_Memory", Expr, PgType], Expr]


@dataclass(frozen=True)
class Remembered:
    """An aggregate and, for each call in order, its result over the aggregate's columns."""

    node: Aggregate
    results: tuple[Expr, ...]


@dataclass
class _Memory:
    """The measures gathered so far; equal ones are remembered once."""

    name: Namer
    measures: list[Measure] = field(default_factory=list)

    def measure(self, how: str, arg: Expr | None, pg: PgType, spark: str | None = None) -> Expr:
        for known in self.measures:
            if known.how == how and known.arg == arg:
                return measured(known)
        stored = ROWS if how == "rows" else f"{how}{sum(m.how == how for m in self.measures)}"
        nullable = how in ("min", "max")
        column = Column(stored, pg, spark or spark_type(pg.arrow), nullable=nullable)
        self.measures.append(Measure(self.name("", stored), how, arg, column))  # type: ignore[arg-type]
        return measured(self.measures[-1])

    def nonnull(self, arg: Expr) -> Expr:
        return self.measure("nonnull", arg, INT8) if is_nullable(arg) else measured(self.measures[0])


def remember(
    node: Node,
    keys: tuple[tuple[str, Expr], ...],
    calls: Sequence[tuple[exp.Expr, Binder, PgType]],
    name: Namer,
) -> Remembered:
    memory = _Memory(name)
    rows = memory.measure("rows", None, INT8)
    results = []
    for call, binder, pg in calls:
        if isinstance(call, exp.Count) and (call.this is None or isinstance(call.this, exp.Star)):
            results.append(rows)
            continue
        if call.expressions:
            raise UnsupportedQuery("an aggregate of several arguments is not supported", hint="Aggregate one value.")
        arg = plain(fix(binder.bind(call.this), pg)) if not isinstance(call, exp.Count) else binder.bind(call.this)
        results.append(_READERS[type(call)](memory, arg, pg))
    return Remembered(Aggregate(node, keys, tuple(memory.measures)), tuple(results))


def is_aggregate(node: exp.Expr) -> bool:
    """True for an aggregate call with a rule, and for an expression that contains one."""
    return any(type(found) in _READERS for found in node.find_all(exp.AggFunc))


def _count(memory: _Memory, arg: Expr, pg: PgType) -> Expr:
    return memory.nonnull(arg)


def _sum(memory: _Memory, arg: Expr, pg: PgType) -> Expr:
    total = convert(_total(memory, arg), pg, "float") if pg.oid == 700 else _total(memory, arg)
    return _unless_empty(memory, arg, total)


def _avg(memory: _Memory, arg: Expr, pg: PgType) -> Expr:
    total, count = _total(memory, arg), memory.nonnull(arg)
    return _unless_empty(memory, arg, arithmetic("div", total, count, pg))


def _total(memory: _Memory, arg: Expr) -> Expr:
    if kind(arg.pg) == "float":
        return memory.measure("fsum", convert(arg, FLOAT8, "double"), FLOAT8)
    if kind(arg.pg) not in ("int", "numeric"):
        raise refuse_types("sum or avg", (arg,))
    if arg.spark in ("smallint", "int"):
        return memory.measure("sum", arg, INT8)
    return memory.measure("sum", arg, NUMERIC, decimals.name((decimals.MAX, decimals.decimal_of(arg.spark)[1])))


def _unless_empty(memory: _Memory, arg: Expr, result: Expr) -> Expr:
    """A sum over no value is NULL; in a group whose argument is never NULL that can only be the group of no rows."""
    return empty_or(result, memory.nonnull(arg), lit(0, INT4))


def _extreme(how: str) -> Reader:
    def read(memory: _Memory, arg: Expr, pg: PgType) -> Expr:
        if kind(arg.pg) in ("opaque", "bool"):
            raise refuse_types(how, (arg,))
        return memory.measure(how, arg, pg if kind(pg) == kind(arg.pg) else arg.pg, arg.spark)

    return read


_READERS: dict[type[exp.Expr], Reader] = {
    exp.Count: _count,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Min: _extreme("min"),
    exp.Max: _extreme("max"),
}
