"""Every table of a query gets an alias that no other has, so that a column says by it which SELECT it belongs to."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope


def unique_aliases(tree: exp.Expr) -> None:
    """Rename, in place, the tables of inner queries that are called like others.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT a.x FROM t AS a WHERE EXISTS(SELECT 1 FROM t AS a WHERE a.x = 1)")
    >>> unique_aliases(tree)
    >>> tree.sql()
    'SELECT a.x FROM t AS a WHERE EXISTS(SELECT 1 FROM t AS "a_2" WHERE "a_2".x = 1)'
    """
    uses: list[tuple[str, exp.Expr, list[exp.Column]]] = []
    for scope in reversed(traverse_scope(tree)):
        for alias, (node, _) in scope.selected_sources.items():
            uses.append((alias, _named(node), [column for column in scope.columns if column.table == alias]))
    taken: set[str] = set()
    for alias, named, columns in uses:
        name, number = alias, 1
        while name in taken:
            number += 1
            name = f"{alias}_{number}"
        taken.add(name)
        if name != alias:
            named.args["alias"].set("this", exp.to_identifier(name, quoted=True))
            for column in columns:
                column.set("table", exp.to_identifier(name, quoted=True))


def _named(node: exp.Expr) -> exp.Expr:
    """What carries the alias: a subquery's SELECT is told without its parentheses."""
    while not node.args.get("alias") and node.parent is not None:
        node = node.parent
    return node
