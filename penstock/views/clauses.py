"""The clauses of a SELECT as the parser has them: their parts, and what they mean by a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.windows import parts


def conditions(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions that AND connects."""
    if isinstance(tree, exp.Paren):
        yield from conditions(tree.this)
    elif isinstance(tree, exp.And):
        yield from conditions(tree.this)
        yield from conditions(tree.expression)
    else:
        yield tree


def meant(tree: exp.Expr, select: exp.Select) -> exp.Expr:
    """What ORDER BY or DISTINCT ON names: a result column by its name, or an expression over FROM."""
    given = {item.alias_or_name: item.unalias() for item in select.expressions}
    tree = unparen(tree)
    if isinstance(tree, exp.Column) and not tree.table:
        named: exp.Expr = given[tree.name].copy()
        return named
    for column in tree.find_all(exp.Column):
        meant = given.get(column.name)
        if not column.table and not (isinstance(meant, exp.Column) and meant.name == column.name):
            raise UnsupportedQuery(
                f"ORDER BY computes with {column.name}, which may be a result or a column of a table",
                hint="Order by the column alone, or qualify it with its table.",
            )
    found: exp.Expr = tree.copy().transform(
        lambda n: given[n.name].copy() if isinstance(n, exp.Column) and not n.table else n
    )
    return found


def is_alone(tree: exp.Query) -> bool:
    """True where a subquery reads nothing of the query around it."""
    own = {found.alias_or_name for found in tree.find_all(exp.Table, exp.Subquery, exp.Lateral)}
    return all(column.table in own or not column.table for column in tree.find_all(exp.Column))


def over_parts(window: exp.Expr, step: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    made = window.copy()
    for part in parts(made):
        part.replace(step(part))
    return made


def ctes_of(tree: exp.Expr) -> list[exp.Expr]:
    found = tree.args.get("with_")
    return list(found.expressions) if found is not None else []


def unparen(node: exp.Expr) -> exp.Expr:
    return unparen(node.this) if isinstance(node, exp.Paren) else node
