"""The order in which a view's aggregates take rows that their ORDER BY leaves equal, as PostgreSQL is told it."""

from __future__ import annotations

from sqlglot import exp

from penstock.views.aggregates.calls import named_function

_COLLECTING = frozenset({"string_agg", "array_agg", "json_agg", "jsonb_agg"})


def settle_ties(tree: exp.Expr) -> None:
    """Order by the value at last, in place.

    >>> from sqlglot import parse_one
    >>> sql = "SELECT string_agg(a, ',' ORDER BY b), array_agg(DISTINCT a), jsonb_agg(c) FROM t"
    >>> tree = parse_one(sql, read="postgres")
    >>> settle_ties(tree)
    >>> tree.sql(dialect="postgres")
    "SELECT STRING_AGG(a, ',' ORDER BY b, a), ARRAY_AGG(DISTINCT a), JSONB_AGG(c ORDER BY c) FROM t"
    """
    for call in list(tree.find_all(exp.Func)):
        if named_function(call) in _COLLECTING:
            value = call.expressions[0] if isinstance(call, exp.Anonymous) else call.this
            ordered = value if isinstance(value, exp.Order) else None
            value = ordered.this if ordered is not None else value
            if isinstance(value, exp.Distinct):
                continue
            last = exp.Ordered(this=value.copy(), nulls_first=False)
            if ordered is not None:
                ordered.append("expressions", last)
            else:
                value.replace(exp.Order(this=value.copy(), expressions=[last]))
