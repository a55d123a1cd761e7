"""What differs between the two SQL dialects: constants, casts, functions, hints, one row made two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import ConfigError
from penstock.relation.types import PgType
from penstock.views import aggregates, expressions
from penstock.views.aggregates.memory import MeasureSql
from penstock.views.expr import INT8, Col, Expr, Lit, kind, lit
from penstock.views.expressions.sql import Sql, cast, column, fn, number, pg_cast, string
from penstock.views.render.hints import COALESCE, add_hint, hint
from penstock.views.typer import type_name


@dataclass(frozen=True)
class Dialect:
    """One target. `hints` is True where the engine reads /*+ BROADCAST */ comments; `in_memory` where all it reads are
    small tables, each in one partition: kept there, the statement is one task without any exchange."""

    name: str
    calls: Mapping[str, Callable[..., Sql]]
    measures: Mapping[str, MeasureSql]
    hints: bool
    in_memory: bool = False

    def expression(self, expr: Expr) -> Sql:
        if isinstance(expr, Col):
            return column(expr.name, expr.table)
        if isinstance(expr, Lit):
            return self.constant(expr)
        args = [self.expression(arg) for arg in expr.args]
        return self.calls[expr.op](expr, *args)

    def constant(self, value: Lit) -> Sql:
        if value.value is None:
            if self.name == "postgres" and value.pg.plain.oid == _JSON:  # held as text where it is computed
                return exp.Null()
            return self.cast(exp.Null(), value.pg, value.spark)
        form = kind(value.pg)
        if form == "bool":
            return exp.Boolean(this=value.value == "true")
        if form in ("text", "opaque"):
            return string(value.value)
        if form == "int" and value.spark == "int":
            return number(value.value)
        if form == "numeric" and "." in value.value and self.name == "postgres":
            return number(value.value)
        return self.cast(string(value.value), value.pg, value.spark)

    def cast(self, value: Sql, pg: PgType, spark: str) -> Sql:
        return cast(value, spark) if self.name == "spark" else pg_cast(value, type_name(pg))

    def both_sides(self) -> Sql:
        """A row for −1 and one for +1, from each row."""
        signs = [self.constant(lit(sign, INT8)) for sign in (-1, 1)]
        if self.name == "spark":
            return fn("EXPLODE", fn("ARRAY", *signs))
        return fn("UNNEST", exp.Array(expressions=signs))

    def repeated(self, times: Sql) -> Sql:
        """A row as often as `times` says, of each row."""
        if self.name == "spark":
            return fn("EXPLODE", fn("ARRAY_REPEAT", number("1"), cast(times, "int")))
        return fn("GENERATE_SERIES", number("1"), times)

    def gathered(self, union: Sql) -> Sql:
        """A union, which has the partitions of all its branches, in one where all else is in one."""
        if not self.in_memory:
            return union
        whole = exp.Select(expressions=[exp.Star()])
        add_hint(whole, COALESCE)
        whole.set("from_", exp.From(this=exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier("u")))))
        return whole

    def join_hint(self, aliases: Sequence[str], broadcast: Sequence[str] = ()) -> exp.Anonymous | None:
        """How the tables of a FROM, in order, are to be joined: a broadcast is a job of its own."""
        chosen = aliases[1:] if self.in_memory else broadcast
        if not self.hints or not chosen:
            return None
        return hint("SHUFFLE_HASH" if self.in_memory else "BROADCAST", *map(exp.to_identifier, chosen))

    def text(self, tree: Sql) -> str:
        """The statement, formatted for a person."""
        return str(tree.sql(dialect=self.name, pretty=True, copy=False))


_JSON = 114
SPARK = Dialect("spark", expressions.SPARK, aggregates.SPARK, hints=True)
IN_MEMORY = replace(SPARK, in_memory=True)
POSTGRES = Dialect("postgres", expressions.POSTGRES, aggregates.POSTGRES, hints=False)
_DIALECTS: dict[str, Dialect] = {"spark": SPARK, "postgres": POSTGRES}


def dialect_of(name: str) -> Dialect:
    if name not in _DIALECTS:
        raise ConfigError(f"no renderer for {name!r}", hint=f"One of: {', '.join(_DIALECTS)}.")
    return _DIALECTS[name]
