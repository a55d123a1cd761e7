"""FROM (a JOIN b ON x) JOIN c ON y is FROM a JOIN b ON x JOIN c ON y: inner joins need no parentheses, nor does what
comes first. PostgreSQL writes them all when it gives a view's definition back.

Around outer joins they mean something. Once PostgreSQL has checked the query its tables are listed flat, in the order
in which they stand, so that names resolve as ever; after which of them what is joined stands in an ON of our own:
`a LEFT JOIN (b JOIN c ON x) ON y` is `a JOIN b ON _joins() JOIN c ON _joins('', x, 'LEFT', y)`. Read from left to
right, a table is put on a stack, and each pair of a side and a condition joins the two things that are on top of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.errors import UnsupportedQuery

JOINS = "_joins"
Operation = tuple[str, exp.Expr | None]  # the side, and the condition if there is one


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
        if _is_nested(join.this) and not _is_outer(join) and (inner := _inside(join.this)) is not None:
            select.set("joins", [*joins[:place], *_spliced(join, *inner), *joins[place + 1 :]])
            return True
    return False


def _is_nested(source: exp.Expr) -> bool:
    return bool(source.args.get("joins")) or (
        isinstance(source, (exp.Subquery, exp.Paren)) and isinstance(source.this, (exp.Table, exp.Subquery))
    )


def _is_outer(join: exp.Join) -> bool:
    """True where it, or a join within its parentheses, is not an inner one."""
    return bool(join.args.get("side")) or any(map(_is_outer, _joins_within(join.this)))


def _joins_within(source: exp.Expr) -> Iterator[exp.Join]:
    yield from source.args.get("joins") or []
    if isinstance(source, (exp.Subquery, exp.Paren)) and isinstance(source.this, (exp.Table, exp.Subquery)):
        yield from _joins_within(source.this)


def _inside(source: exp.Expr) -> tuple[exp.Expr, list[exp.Join]] | None:
    """The first source and the joins within parentheses, or of a table that carries its own joins."""
    if not _is_nested(source):
        return None
    first = source
    if not source.args.get("joins"):
        if source.alias:
            raise UnsupportedQuery("an alias of a parenthesised join is not supported", hint="Name its tables instead.")
        first = source.this
    joins = list(first.args.get("joins") or [])
    first.set("joins", None)
    return _values(first), joins


def _values(source: exp.Expr) -> exp.Expr:
    """VALUES behind a parenthesis are a table to the parser."""
    if not (isinstance(source, exp.Table) and isinstance(source.this, exp.Values)):
        return source
    source.this.set("alias", source.args.get("alias"))
    found: exp.Expr = source.this
    return found


def _spliced(join: exp.Join, first: exp.Expr, inner: list[exp.Join]) -> list[exp.Join]:
    """The outer join's condition may name every table inside, so it goes to the last of them."""
    if not inner:
        join.set("this", first)
        return [join]
    if join.args.get("using"):
        raise UnsupportedQuery("USING with a parenthesised join is not supported", hint="Write the condition with ON.")
    last, condition = inner[-1], join.args.get("on")
    if condition is not None:
        if last.args.get("using"):
            raise UnsupportedQuery("USING inside a parenthesised join is not supported", hint="Write it with ON.")
        own = last.args.get("on")
        last.set("on", condition if own is None else exp.and_(own, condition, copy=False))
        last.set("kind", None)
    return [exp.Join(this=first, kind="CROSS"), *inner]


# Outer joins ----------------------------------------------------------------------------------------------------------


def list_joins(tree: exp.Expr) -> None:
    """List the tables of parenthesised outer joins flat, in place, with what joins them.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT 1 FROM a LEFT JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x", read="postgres")
    >>> list_joins(tree)
    >>> tree.sql(dialect="postgres")
    "SELECT 1 FROM a JOIN b ON _JOINS() JOIN c ON _JOINS('', b.x = c.x, 'LEFT', a.x = b.x)"
    """
    for select in tree.find_all(exp.Select):
        joins = list(select.args.get("joins") or [])
        apart = is_apart(joins)
        if not apart and not any(_is_nested(join.this) for join in joins):
            continue
        listed: list[tuple[exp.Expr, list[exp.Join]]] = []
        ended: exp.Join | None = None
        _list(select.args["from_"].this, listed)
        for join in joins:
            if apart and is_comma(join):
                listed[-1][1].extend([ended] if ended else [])
                _list(join.this, listed)
                ended = join
            else:
                _list(join.this, listed)
                listed[-1][1].append(join)
        listed[-1][1].extend([ended] if ended else [])
        select.args["from_"].set("this", listed[0][0])
        select.set("joins", [_marked(source, found) for source, found in listed[1:]])


def is_comma(join: exp.Expr) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "kind", "side", "method"))


def is_apart(joins: list[exp.Join]) -> bool:
    """A comma binds weaker than JOIN, which the parser does not tell; only these joins tell the difference."""
    commas = [place for place, join in enumerate(joins) if is_comma(join)]
    return bool(commas) and any(join.args.get("side") in ("RIGHT", "FULL") for join in joins[commas[0] :])


def _list(source: exp.Expr, listed: list[tuple[exp.Expr, list[exp.Join]]]) -> None:
    if not _is_nested(source):
        listed.append((source, []))
        return
    inner = _inside(source)
    assert inner is not None
    _list(inner[0], listed)
    for join in inner[1]:
        if join.args.get("using") or join.args.get("method"):
            raise UnsupportedQuery(
                "USING or NATURAL inside the parentheses of an outer join is not supported in a view",
                hint="Write the condition with ON.",
            )
        _list(join.this, listed)
        listed[-1][1].append(join)


def _marked(source: exp.Expr, joins: list[exp.Join]) -> exp.Join:
    """The joins that are made once the table is there; as it was, where that is its own join alone."""
    if len(joins) == 1 and joins[0].this is source:
        return joins[0]
    if any(join.args.get("using") or join.args.get("method") for join in joins):
        raise UnsupportedQuery(
            "USING or NATURAL with a parenthesised join is not supported in a view", hint="Write the condition with ON."
        )
    told = [
        part
        for join in joins
        for part in (exp.Literal.string(str(join.args.get("side") or "")), join.args.get("on") or exp.true())
    ]
    return exp.Join(this=source, on=exp.Anonymous(this=JOINS, expressions=told))


def operations(join: exp.Expr) -> list[Operation]:
    """What is joined once the table of a join is there."""
    on = join.args.get("on")
    if not (isinstance(on, exp.Anonymous) and on.name == JOINS):
        return [(str(join.args.get("side") or "").upper(), on)]
    told = on.expressions
    return [(side.name.upper(), condition) for side, condition in zip(told[0::2], told[1::2], strict=True)]
