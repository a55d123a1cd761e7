"""What the calls of one SELECT remember together: equal measures are remembered once, the first counts rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.relation.schema import Column
from penstock.relation.types import PgType, spark_type
from penstock.views.aggregates.calls import Bound
from penstock.views.algebra import Aggregate, Measure, measured
from penstock.views.expr import INT8, Expr, is_nullable
from penstock.views.expressions.sql import Sql

ROWS = "_count"
Namer = Callable[..., str]
Reader = Callable[["Memory", Bound], Expr]
MeasureSql = Callable[[Measure, "Arguments"], Sql]


@dataclass(frozen=True)
class Remembered:
    """An aggregate and, for each call in order, its result over the aggregate's columns."""

    node: Aggregate
    results: tuple[Expr, ...]


@dataclass(frozen=True)
class Arguments:
    """A measure's expressions as SQL, for whoever renders it."""

    arg: Sql
    more: tuple[Sql, ...]
    order: tuple[Sql, ...]
    where: Sql | None


@dataclass
class Memory:
    name: Namer
    measures: list[Measure] = field(default_factory=list)

    @property
    def rows(self) -> Expr:
        return measured(self.measures[0])

    def measure(self, how: str, arg: Expr | None, pg: PgType, spark: str | None = None, **more: Any) -> Expr:
        wanted = Measure("", how, arg, Column("", pg, spark or spark_type(pg.arrow), nullable=how not in _ZERO), **more)
        for known in self.measures:
            if _unnamed(known) == wanted:
                return measured(known)
        short = "agg" if how not in _SHORT else how
        stored = ROWS if how == "rows" else f"{short}{sum(_short(m) == short for m in self.measures)}"
        column = Column(stored, wanted.column.pg, wanted.column.spark, nullable=wanted.column.nullable)
        self.measures.append(Measure(self.name("", stored), how, arg, column, **more))
        return measured(self.measures[-1])

    def nonnull(self, arg: Expr, *, distinct: bool = False) -> Expr:
        if distinct:
            return self.measure("nonnull", arg, INT8, distinct=True)
        return self.measure("nonnull", arg, INT8) if is_nullable(arg) else self.rows


_ZERO = frozenset({"rows", "nonnull", "sum", "fsum"})  # 0 over no value
_SHORT = frozenset({"rows", "nonnull", "sum", "fsum", "min", "max"})


def _short(measure: Measure) -> str:
    return measure.how if measure.how in _SHORT else "agg"


def _unnamed(measure: Measure) -> Measure:
    column = measure.column
    plain = Column("", column.pg, column.spark, nullable=column.nullable)
    return Measure(
        "", measure.how, measure.arg, plain, measure.distinct, measure.more, measure.order, measure.where,
        measure.detail,
    )  # fmt: skip


def start(name: Namer) -> Memory:
    memory = Memory(name)
    memory.measure("rows", None, INT8)
    return memory
