"""The few ways SQL text is made: sqlglot nodes that print as written in both dialects, always parenthesised."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

Sql = exp.Expr

_BINARY: dict[str, type[exp.Expr]] = {
    "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "%": exp.Mod, "DIV": exp.IntDiv,
    "=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE,
    "<=>": exp.NullSafeEQ, "IS DISTINCT": exp.NullSafeNEQ,
    "AND": exp.And, "OR": exp.Or, "LIKE": exp.Like, "ILIKE": exp.ILike, "||": exp.DPipe,
}  # fmt: skip


def binary(sign: str, left: Sql, right: Sql) -> Sql:
    if sign == "/":
        # Both engines divide as their operand types say; the flags keep sqlglot from adding NULLIF or casts of its own.
        return exp.Paren(this=exp.Div(this=left, expression=right, typed=True, safe=False))
    return exp.Paren(this=_BINARY[sign](this=left, expression=right))


def chain(sign: str, *parts: Sql) -> Sql:
    """a AND b AND …, without nesting."""
    if len(parts) == 1:
        return parts[0]
    whole = parts[0]
    for part in parts[1:]:
        whole = _BINARY[sign](this=whole, expression=part)
    return exp.Paren(this=whole)


def bare(value: Sql) -> Sql:
    """Without parentheses, where the syntax around it delimits it."""
    return value.this if isinstance(value, exp.Paren) else value


def fn(name: str, *args: Sql) -> Sql:
    return exp.Anonymous(this=name, expressions=[bare(arg) for arg in args])


def cast(value: Sql, spark: str) -> Sql:
    return exp.Cast(this=bare(value), to=_type(spark, "spark"))


def pg_cast(value: Sql, name: str) -> Sql:
    return exp.Cast(this=bare(value), to=_type(name, "postgres"))


def _type(name: str, dialect: str) -> Sql:
    return _parsed_type(name, dialect).copy()


@lru_cache(maxsize=256)
def _parsed_type(name: str, dialect: str) -> exp.DataType:
    return exp.DataType.build(name, dialect=dialect, udt=dialect == "postgres")


def number(text: str) -> Sql:
    """A number as written; a negative one is parenthesised, since `- -1` would start a comment."""
    if text.startswith("-"):
        return exp.Paren(this=exp.Neg(this=exp.Literal.number(text[1:])))
    return exp.Literal.number(text)


def string(text: str) -> Sql:
    return exp.Literal.string(text)


def column(name: str, table: str = "") -> Sql:
    quoted = exp.to_identifier(name, quoted=True)
    return exp.Column(this=quoted, table=exp.to_identifier(table, quoted=False) if table else None)


def is_null(value: Sql) -> Sql:
    return exp.Paren(this=exp.Is(this=value, expression=exp.Null()))


def negation(value: Sql) -> Sql:
    return exp.Paren(this=exp.Not(this=value))


def case(*branches: tuple[Sql, Sql], default: Sql | None) -> Sql:
    ifs = [exp.If(this=bare(condition), true=bare(value)) for condition, value in branches]
    return exp.Case(ifs=ifs, default=None if default is None else bare(default))


def distinct_fn(name: str, arg: Sql, *, distinct: bool) -> Sql:
    """An aggregate call, of each value once where `distinct`."""
    return fn(name, exp.Distinct(expressions=[bare(arg)]) if distinct else arg)
