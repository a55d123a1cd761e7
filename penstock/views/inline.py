"""A view of the source database is put in its place, as a subquery: the query then reads tables alone."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from penstock.errors import UnsupportedQuery
from penstock.parsing import parse_one

Definition = Callable[[tuple[str, ...]], exp.Expr | None]
_DEPTH = 32


def inline_views(sql: str, definition: Definition) -> str:
    """The query over the tables below its views; the text itself where it names none, or is not one query."""
    try:
        tree = parse_one(sql)
    except SqlglotError:
        return sql
    if not isinstance(tree, exp.Query):
        return sql
    for depth in range(_DEPTH):
        if not _inlined(tree, definition):
            return sql if depth == 0 else tree.sql(dialect="postgres")
    raise UnsupportedQuery("views over views more than 32 deep are not supported", hint="Select from a lower one.")


def inline_once(sql: str, definition: Definition) -> str:
    """The query with each name that has a definition put in its place, not looking into what was put there."""
    tree = parse_one(sql)
    _inlined(tree, definition)
    return tree.sql(dialect="postgres")


def _inlined(tree: exp.Expr, definition: Definition) -> bool:
    found = False
    tables = [source for scope in traverse_scope(tree) for source in scope.sources.values()]
    for table in [one for one in tables if isinstance(one, exp.Table) and isinstance(one.this, exp.Identifier)]:
        parts = tuple(part.name if part.args.get("quoted") else part.name.lower() for part in table.parts)
        query = definition(parts)
        if query is not None:
            alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
            joins = table.args.get("joins")
            table.replace(exp.Subquery(this=query.copy(), alias=alias.copy(), joins=joins))
            found = True
    return found
