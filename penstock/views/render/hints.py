"""Comments that Spark reads: how to join, and where rows are."""

from __future__ import annotations

from sqlglot import exp

from penstock.views.expressions.sql import Sql, number


def hint(name: str, *arguments: Sql) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


COALESCE = hint("COALESCE", number("1"))
"""The rows are in one partition; those of one already are not moved."""


def add_hint(query: exp.Select, one: exp.Anonymous | None) -> None:
    if one is not None:
        query.set("hint", exp.Hint(expressions=[*hints(query), one.copy()]))


def hints(query: exp.Select) -> list[exp.Anonymous]:
    there = query.args.get("hint")
    return list(there.expressions) if there else []
