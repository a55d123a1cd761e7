"""An expression is a tree of columns, constants and calls, each with its PostgreSQL type and the Spark type holding it.

The PostgreSQL type is the server's own answer; the Spark type is what the rendered Spark expression yields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from penstock.relation.types import PgType, spark_type

BOOL = PgType(16, -1, "boolean")
INT2 = PgType(21, -1, "smallint")
INT4 = PgType(23, -1, "integer")
INT8 = PgType(20, -1, "bigint")
FLOAT4 = PgType(700, -1, "real")
FLOAT8 = PgType(701, -1, "double precision")
NUMERIC = PgType(1700, -1, "numeric")
TEXT = PgType(25, -1, "text")
DATE = PgType(1082, -1, "date")
TIMESTAMP = PgType(1114, -1, "timestamp without time zone")
TIMESTAMPTZ = PgType(1184, -1, "timestamp with time zone")

_KINDS = {
    16: "bool", 17: "bytea", 20: "int", 21: "int", 23: "int", 26: "oid", 700: "float", 701: "float", 1700: "numeric",
    18: "text", 19: "text", 25: "text", 1042: "char", 1043: "text", 2950: "uuid",
    1082: "date", 1114: "timestamp", 1184: "timestamptz",
}  # fmt: skip


def kind(pg: PgType) -> str:
    """The family of a type; what is held as PostgreSQL's text is `opaque`.

    >>> kind(INT4), kind(NUMERIC), kind(PgType(3802, -1, "jsonb"))
    ('int', 'numeric', 'opaque')
    """
    return "opaque" if pg.held_as_text else _KINDS.get(pg.oid, "opaque")


@dataclass(frozen=True)
class Col:
    """A column by its name in the tree, or, once rendered, by its name in the SQL relation `table`."""

    name: str
    pg: PgType
    spark: str
    nullable: bool = True
    table: str = ""


@dataclass(frozen=True)
class Lit:
    """A constant as PostgreSQL would print it; None is NULL. `bare` marks a quoted literal that has no type yet."""

    value: str | None
    pg: PgType
    spark: str
    bare: bool = False


@dataclass(frozen=True)
class Call:
    """An operator or function of the allowlist; `detail` is a constant that chooses among its forms."""

    op: str
    args: tuple[Expr, ...]
    pg: PgType
    spark: str
    detail: str = ""


Expr = Col | Lit | Call


def lit(value: str | int | None, pg: PgType, spark: str | None = None) -> Lit:
    return Lit(None if value is None else str(value), pg, spark or spark_type(pg.arrow))


def call(op: str, *args: Expr, pg: PgType, spark: str | None = None, detail: str = "") -> Call:
    return Call(op, args, pg, spark or spark_type(pg.arrow), detail)


TRUE = Lit("true", BOOL, "boolean")


def columns(expr: Expr) -> Iterator[Col]:
    """Every column the expression reads, with repetitions."""
    if isinstance(expr, Col):
        yield expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from columns(arg)


def names(expr: Expr) -> frozenset[str]:
    return frozenset(column.name for column in columns(expr))


def transform(expr: Expr, leaf: Callable[[Col], Expr]) -> Expr:
    """The expression with every column replaced."""
    if isinstance(expr, Col):
        return leaf(expr)
    if isinstance(expr, Call):
        return replace(expr, args=tuple(transform(arg, leaf) for arg in expr.args))
    return expr


def substitute(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    """The expression over what its columns stand for."""
    return transform(expr, lambda column: by.get(column.name, column))


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The parts of a conjunction: a filter on all of them is a filter on each."""
    return _operands("and", expr)


def disjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The branches of a disjunction."""
    return _operands("or", expr)


def _operands(op: str, expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op == op:
        return tuple(part for arg in expr.args for part in _operands(op, arg))
    return (expr,)


def is_nullable(expr: Expr) -> bool:
    if isinstance(expr, Col):
        return expr.nullable
    return not (isinstance(expr, Lit) and expr.value is not None)
