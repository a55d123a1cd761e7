"""`'1 day'::interval` is `interval '1 day'`."""

from __future__ import annotations

from sqlglot import exp


def plain_intervals(tree: exp.Expr) -> None:
    """In place.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT d + '2 days'::interval FROM t", read="postgres")
    >>> plain_intervals(query); query.sql("postgres")
    "SELECT d + INTERVAL '2 days' FROM t"
    """
    for found in list(tree.find_all(exp.Cast)):
        if found.to.is_type("interval") and isinstance(found.this, exp.Literal) and found.this.is_string:
            found.replace(exp.Interval(this=found.this.copy()))
