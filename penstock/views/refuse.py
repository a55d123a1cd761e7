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
    how, method = (str(node.args.get(part) or "").upper() for part in ("kind", "method"))
    if method:
        return None if method == "NATURAL" and not how else f"{method} JOIN"
    return f"{how} JOIN" if how not in ("", "INNER", "CROSS", "OUTER") else None


def _merged(node: exp.Expr) -> str | None:
    """A merged column is more than the first of its columns, which only these joins tell."""
    seen: list[exp.Expr] = []
    for join in node.args.get("joins") or []:
        if (join.args.get("using") or join.args.get("method")) and any(
            earlier.args.get("side") in ("RIGHT", "FULL") for earlier in seen
        ):
            return "USING after a RIGHT or FULL JOIN"
        seen.append(join)
    return None


def _in_outer_join(node: exp.Expr) -> str | None:
    if node.args.get("on") is not None and node.args["on"].find(exp.Query):
        return "a subquery in ON"
    return None


def _ordered(node: exp.Expr) -> str | None:
    """An order means something with a limit, and inside an aggregate or a window."""
    above = node.parent
    if not isinstance(above, exp.Query) or above.args.get("limit") or above.args.get("offset"):
        return None
    once = above.args.get("distinct")
    return None if isinstance(once, exp.Expr) and once.args.get("on") else "ORDER BY without LIMIT in a subquery"


def _in_select(node: exp.Expr) -> str | None:
    return None if isinstance(node.parent, (exp.From, exp.Join, exp.Lateral)) else "unnest() outside of FROM"


def _of_query(node: exp.Expr) -> str | None:
    return "ARRAY(SELECT …)" if any(isinstance(one.unnest(), exp.Query) for one in node.expressions) else None


_CHECKS: tuple[Check, ...] = (
    (exp.Join, _join, "Write the condition with ON."),
    (exp.Select, _merged, "Write the condition with ON."),
    (exp.Order, _ordered, "A view is a set of rows; order them where you read it."),
    (exp.With, _having("recursive", "WITH RECURSIVE"), _LATER),
    (exp.Join, _in_outer_join, "Put the condition into WHERE, or into a subquery in FROM."),
    (exp.TableSample, _always("TABLESAMPLE"), "A sample cannot be kept fresh."),
    (exp.Lock, _always("FOR UPDATE"), "A view does not lock rows."),
    (exp.Into, _always("SELECT INTO"), "Give the view's name when creating it."),
    (exp.Placeholder, _always("a parameter"), "Write the value."),
    (exp.Parameter, _always("a parameter"), "Write the value."),
    (exp.Collate, _always("COLLATE"), "Text is compared by its bytes (C)."),
    (exp.Unnest, _in_select, "Write it in FROM."),
    (exp.Array, _of_query, "Write (SELECT array_agg(x ORDER BY x) …); over no rows it is NULL."),
    (exp.Escape, _always("ESCAPE"), "Escape with a backslash."),
)  # fmt: skip


# The clauses that are read; one the parser knows and these lists do not would be dropped silently.
_CLAUSES: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: frozenset(
        {
            "expressions",
            "from_",
            "joins",
            "where",
            "group",
            "having",
            "with_",
            "distinct",
            "order",
            "limit",
            "offset",
            "windows",
        }
    ),
    exp.SetOperation: frozenset({"this", "expression", "with_", "distinct", "order", "limit", "offset"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "alias", "over"}),
    exp.Lateral: frozenset({"this", "alias", "ordinality"}),
    exp.Subquery: frozenset({"this", "alias", "joins"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias", "joins", "ordinality"}),
    exp.Unnest: frozenset({"expressions", "alias", "offset"}),
    exp.Join: frozenset({"this", "on", "using", "kind", "side", "method"}),
    exp.Group: frozenset({"expressions"}),
    exp.With: frozenset({"expressions"}),
    exp.CTE: frozenset({"this", "alias", "materialized"}),
}


def _unread(node: exp.Expr) -> list[str]:
    known = next((clauses for found, clauses in _CLAUSES.items() if isinstance(node, found)), None)
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
