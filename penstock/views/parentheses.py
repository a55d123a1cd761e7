"""FROM (a JOIN b ON x) JOIN c ON y is FROM a JOIN b ON x JOIN c ON y: inner joins need no parentheses, nor does what
comes first. PostgreSQL writes them all when it gives a view's definition back."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import UnsupportedQuery


def open_parentheses(tree: exp.Expr) -> None:
    """Take inner joins out of their parentheses, in place.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT 1 FROM a JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x", read="postgres")
    >>> open_parentheses(tree)
    >>> tree.sql(dialect="postgres")
    'SELECT 1 FROM a CROSS JOIN b JOIN c ON b.x = c.x AND a.x = b.x'
    """
    for select in tree.find_all(exp.Select):
        while _opened(select):
            pass


def _opened(select: exp.Select) -> bool:
    start = select.args.get("from_")
    if start is None:
        return False
    if (inner := _inside(start.this)) is not None:
        start.set("this", inner[0])
        select.set("joins", [*inner[1], *(select.args.get("joins") or [])])
        return True
    joins = select.args.get("joins") or []
    for place, join in enumerate(joins):
        if (inner := _inside(join.this)) is not None:
            select.set("joins", [*joins[:place], *_spliced(join, *inner), *joins[place + 1 :]])
            return True
    return False


def _inside(source: exp.Expr) -> tuple[exp.Expr, list[exp.Join]] | None:
    """The first source and the joins within parentheses, or of a table that carries its own joins."""
    if isinstance(source, exp.Subquery) and source.args.get("joins"):
        joins = list(source.args["joins"])
        source.set("joins", None)
        return source, joins
    if isinstance(source, (exp.Subquery, exp.Paren)) and isinstance(source.this, (exp.Table, exp.Subquery)):
        if source.alias:
            raise UnsupportedQuery("an alias of a parenthesised join is not supported", hint="Name its tables instead.")
        first = source.this
        joins = list(first.args.get("joins") or [])
        first.set("joins", None)
        return first, joins
    if isinstance(source, exp.Table) and source.args.get("joins"):
        joins = list(source.args["joins"])
        source.set("joins", None)
        return source, joins
    return None


def _spliced(join: exp.Join, first: exp.Expr, inner: list[exp.Join]) -> list[exp.Join]:
    """The outer join's condition may name every table inside, so it goes to the last of them."""
    if any(found.args.get("side") for found in (join, *inner)):
        raise UnsupportedQuery(
            "an outer join around or inside parentheses is not supported in a view yet",
            hint="Put the tables that are joined first into a subquery with an alias, or reorder the joins.",
        )
    if join.args.get("using") or not inner:
        raise UnsupportedQuery("USING with a parenthesised join is not supported", hint="Write the condition with ON.")
    last, condition = inner[-1], join.args.get("on")
    if condition is not None:
        if last.args.get("using"):
            raise UnsupportedQuery("USING inside a parenthesised join is not supported", hint="Write it with ON.")
        own = last.args.get("on")
        last.set("on", condition if own is None else exp.and_(own, condition, copy=False))
        last.set("kind", None)
    return [exp.Join(this=first, kind="CROSS"), *inner]
