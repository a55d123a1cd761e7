"""OVER w is OVER (…) with what WINDOW w AS (…) says: every window function carries its own definition."""

from __future__ import annotations

from sqlglot import exp

_PARTS = ("partition_by", "order", "spec")


def inline_windows(tree: exp.Expr) -> None:
    """Put the definitions where they are used, in place.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT sum(x) OVER w FROM t WINDOW w AS (PARTITION BY k)", read="postgres")
    >>> inline_windows(tree)
    >>> tree.sql(dialect="postgres")
    'SELECT SUM(x) OVER (PARTITION BY k) FROM t'
    """
    for select in tree.find_all(exp.Select):
        named: dict[str, exp.Expr] = {}
        for window in select.args.get("windows") or []:
            _complete(window, named)
            named[window.name] = window
        for window in [found for found in select.find_all(exp.Window) if found.parent_select is select]:
            if window not in named.values():
                _complete(window, named)
        select.set("windows", None)


def _complete(window: exp.Expr, named: dict[str, exp.Expr]) -> None:
    base = named.get(window.args["alias"].name) if window.args.get("alias") else None
    if base is not None:
        for part in _PARTS:
            if not window.args.get(part) and base.args.get(part):
                value = base.args[part]
                window.set(part, [one.copy() for one in value] if isinstance(value, list) else value.copy())
        window.set("alias", None)
