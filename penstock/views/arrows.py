"""`f(j -> 'a')`: inside a call the parser takes an arrow for that of a lambda, which PostgreSQL does not have."""

from __future__ import annotations

from sqlglot import exp


def arrows_are_json(tree: exp.Expr) -> exp.Expr:
    """In place: the arrow binds what is left of it to the first operand of what is right of it.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT coalesce(j -> 'a' ->> 'b', 'x') FROM t", read="postgres")
    >>> arrows_are_json(query).find(exp.Lambda), query.find(exp.JSONExtractScalar).this.sql("postgres")
    (None, "j -> 'a'")
    """
    for found in list(tree.find_all(exp.Lambda)):
        if len(found.expressions) != 1:
            continue
        first = body = found.this
        while isinstance(first, exp.Binary):
            first = first.this
        document = exp.Column(this=found.expressions[0].copy())
        arrow = exp.JSONExtract(this=document, expression=first.copy())
        if first is body:
            found.replace(arrow)
        else:
            first.replace(arrow)
            found.replace(body.copy())
    return tree
