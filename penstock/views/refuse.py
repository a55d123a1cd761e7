"""Valid SQL that has no rule yet is refused by its name, before anything else is tried.

The table lists what to look for; an operator that gets its rule loses its line here.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from penstock.errors import UnsupportedQuery

_LATER = "docs/operators.md lists what a view may use."
Check = tuple[type[exp.Expr], Callable[[exp.Expr], str | None], str]


def _always(name: str) -> Callable[[exp.Expr], str | None]:
    return lambda node: name


def _having(arg: str, name: str) -> Callable[[exp.Expr], str | None]:
    return lambda node: name if node.args.get(arg) else None


def _join(node: exp.Expr) -> str | None:
    side, how, method = (str(node.args.get(part) or "").upper() for part in ("side", "kind", "method"))
    if side in ("LEFT", "RIGHT", "FULL"):
        return f"{side} OUTER JOIN"
    if method:
        return f"{method} JOIN"
    return f"{how} JOIN" if how not in ("", "INNER", "CROSS") else None


def _set_operation(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Union):
        return "UNION (without ALL)" if node.args.get("distinct") else None
    return type(node).__name__.upper()


def _subquery(node: exp.Expr) -> str | None:
    """Subqueries stand in FROM and in set operations, nowhere else."""
    places = (exp.From, exp.Join, exp.SetOperation, exp.Subquery, exp.With)
    return None if isinstance(node.parent, places) else "a scalar subquery"


def _distinct(node: exp.Expr) -> str | None:
    return "SELECT DISTINCT" if isinstance(node.parent, exp.Select) else None


def _ordered(node: exp.Expr) -> str | None:
    return "ORDER BY" if isinstance(node.parent, exp.Query) else None


_CHECKS: tuple[Check, ...] = (
    (exp.Join, _join, "Only inner joins have a rule yet."),
    (exp.Lateral, _always("LATERAL"), _LATER),
    (exp.SetOperation, _set_operation, "UNION ALL is supported."),
    (exp.Distinct, _distinct, "GROUP BY the same columns gives the distinct rows."),
    (exp.Window, _always("a window function"), _LATER),
    (exp.Exists, _always("EXISTS (subquery)"), "A join with a grouped subquery may say the same."),
    (exp.Order, _ordered, "A view is a set of rows; order them where you read it."),
    (exp.Limit, _always("LIMIT"), "A view is a set of rows; limit them where you read it."),
    (exp.Fetch, _always("FETCH FIRST"), "A view is a set of rows; limit them where you read it."),
    (exp.Offset, _always("OFFSET"), "A view is a set of rows; skip them where you read it."),
    (exp.With, _having("recursive", "WITH RECURSIVE"), _LATER),
    (exp.In, _having("query", "IN (subquery)"), "Join with the subquery's grouped rows instead."),
    (exp.Any, _always("ANY"), "Write IN (list)."),
    (exp.All, _always("ALL"), _LATER),
    (exp.Subquery, _subquery, "Put it into FROM and join with it."),
    (exp.GroupingSets, _always("GROUPING SETS"), "UNION ALL of several GROUP BY says the same."),
    (exp.Cube, _always("CUBE"), "UNION ALL of several GROUP BY says the same."),
    (exp.Rollup, _always("ROLLUP"), "UNION ALL of several GROUP BY says the same."),
    (exp.Values, _always("VALUES"), "Put the constants into a table of the source."),
    (exp.TableSample, _always("TABLESAMPLE"), "A sample cannot be kept fresh."),
    (exp.Lock, _always("FOR UPDATE"), "A view does not lock rows."),
    (exp.Into, _always("SELECT INTO"), "Give the view's name when creating it."),
    (exp.Placeholder, _always("a parameter"), "Write the value."),
    (exp.Parameter, _always("a parameter"), "Write the value."),
    (exp.Collate, _always("COLLATE"), "Text is compared by its bytes (C)."),
    (exp.Unnest, _always("unnest()"), _LATER),
    (exp.Escape, _always("ESCAPE"), "Escape with a backslash."),
    (exp.AtTimeZone, _always("AT TIME ZONE"), "Times are in UTC."),
)  # fmt: skip


# The clauses that are read; one the parser knows and these lists do not would be dropped silently.
_CLAUSES: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset({"expressions", "from_", "joins", "where", "group", "having", "with_"}),
    exp.Union: frozenset({"this", "expression", "with_"}),
    exp.Subquery: frozenset({"this", "alias"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins"}),
    exp.Join: frozenset({"this", "on", "using", "kind"}),
    exp.Group: frozenset({"expressions"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
}


def _unread(node: exp.Expr) -> list[str]:
    known = _CLAUSES.get(type(node))
    given = (name for name, value in node.args.items() if value not in (None, False, []))
    return [] if known is None else [name for name in given if name not in known]


def refuse(tree: exp.Expr) -> None:
    """Raise UnsupportedQuery for the first construct that has no rule."""
    for node in tree.walk():
        for wanted, name_of, hint in _CHECKS:
            if isinstance(node, wanted) and (name := name_of(node)):
                raise UnsupportedQuery(f"{name} is not supported in a view yet", hint=hint)
    for node in tree.walk():
        if unread := _unread(node):
            what = f"{unread[0].strip('_').replace('_', ' ').upper()} of {node.key.upper()}"
            raise UnsupportedQuery(f"{what} is not supported in a view yet", hint=_LATER)
        if isinstance(node, exp.Select) and not node.args.get("from_"):
            raise UnsupportedQuery("a SELECT without FROM cannot change", hint="Select from a table.")
