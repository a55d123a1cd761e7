"""PostgreSQL gives a view's definition back in other words than people write: `x IN (1, 2)` as `x = ANY (ARRAY[1, 2])`,
constants with their types. The same in the words that are read further on.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Like, exp.ILike)


def plainly_spelled(tree: exp.Expr) -> None:
    """In place.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT x <> ALL (ARRAY[1, 2]) AS a, j #> '{a}'::text[] AS b FROM t", read="postgres")
    >>> plainly_spelled(query); query.sql("postgres")
    "SELECT NOT x IN (1, 2) AS a, j #> '{a}' AS b FROM t"
    """
    for kinds, respell in _RESPELLED:
        for node in list(tree.find_all(*kinds)):
            respell(node)


# Lists ----------------------------------------------------------------------------------------------------------------


def _list(node: exp.Expr) -> None:
    """A comparison with ANY or ALL of a list."""
    if isinstance(node.expression, exp.Anonymous) and node.expression.name.upper() == "ALL":  # to the parser, often
        node.set("expression", exp.All(this=exp.Paren(this=node.expression.expressions[0])))
    if not isinstance(node.expression, (exp.Any, exp.All)) or not (values := _elements(node.expression.this)):
        return
    every = isinstance(node.expression, exp.All)
    if isinstance(node, exp.NEQ if every else exp.EQ):
        among = exp.In(this=node.this, expressions=values)
        node.replace(exp.Not(this=among) if every else among)
        return
    each = [type(node)(**{**node.args, "this": node.this.copy(), "expression": value}) for value in values]
    node.replace(exp.Paren(this=(exp.and_ if every else exp.or_)(*each, copy=False)))


def _elements(node: exp.Expr) -> list[exp.Expr]:
    """Of ARRAY[…], with a cast or without; none if it is anything else."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.to.is_type("array") and len(node.to.expressions) == 1:
        (kind,) = node.to.expressions
        return [exp.Cast(this=one, to=kind.copy()) for one in _elements(node.this)]
    if _is_text(node) and re.fullmatch(r"\{[^\"\\\\{}]+\}", node.name):  # '{1,2}'
        parts = [part.strip() for part in node.name[1:-1].split(",")]
        return [] if any(part.upper() in ("", "NULL") for part in parts) else list(map(exp.Literal.string, parts))
    return [one.copy() for one in node.expressions] if isinstance(node, exp.Array) else []


# Constants with their types -------------------------------------------------------------------------------------------


def _path(node: exp.Expr) -> None:
    """j #> '{a,b}'::text[]"""
    if isinstance(node.expression, exp.Cast) and _is_text(node.expression.this):
        node.set("expression", node.expression.this)


def _names(node: exp.Expr) -> None:
    """j ?| ARRAY['a'::text]"""
    if isinstance(node.expression, exp.Array):
        node.expression.set("expressions", [_bare(one) for one in node.expression.expressions])


def _argument(name: str) -> Callable[[exp.Expr], None]:
    def respell(node: exp.Expr) -> None:
        if isinstance(node.args.get(name), exp.Expr):
            node.set(name, _bare(node.args[name]))

    return respell


def _format(node: exp.Expr) -> None:
    """to_char(t, 'YYYY'::text): the parser reads the pattern of a plain constant alone."""
    if (bare := _bare(node.args["format"])) is not node.args["format"]:
        node.set("format", _POSTGRES.format_time(bare))


def _field(node: exp.Expr) -> None:
    """date_part('year'::text, d)"""
    if _is_text(bare := _bare(node.this)):
        node.set("this", exp.var(bare.name))


def _zone(node: exp.Expr) -> None:
    """timezone('UTC'::text, t), as servers before 14 have it"""
    if node.name.lower() == "timezone" and len(node.expressions) == 2:
        zone, value = node.expressions
        node.replace(exp.AtTimeZone(this=value, zone=zone))


def _spread(node: exp.Expr) -> None:
    """f(x, VARIADIC ARRAY['a'::text])"""
    *first, last = node.expressions or [None]
    if isinstance(last, exp.Variadic) and isinstance(last.this, exp.Array):
        node.set("expressions", [*first, *(_bare(one) for one in last.this.expressions)])


def _padded(node: exp.Expr) -> None:
    """'ab'::bpchar is 'ab'; not so with blanks at the end, which count in one of the two alone."""
    assert isinstance(node, exp.Cast)
    plain = _is_text(node.this) and not node.this.name.endswith(" ")
    if node.to.is_type("bpchar") and not node.to.expressions and plain:
        node.replace(node.this)


def _interval(node: exp.Expr) -> None:
    """'1 day'::interval"""
    assert isinstance(node, exp.Cast)
    if node.to.is_type("interval") and _is_text(node.this):
        node.replace(exp.Interval(this=node.this.copy()))


def _multiple(node: exp.Expr) -> None:
    """(n)::double precision * interval '1 day'"""
    for side, other in (("this", "expression"), ("expression", "this")):
        if isinstance(node.args[other].unnest(), exp.Interval):
            node.set(side, _not_double(node.args[side]))


def _fraction(node: exp.Expr) -> None:
    node.set("this", _not_double(node.this))


def _not_double(node: exp.Expr) -> exp.Expr:
    inner = node.unnest()
    if not isinstance(inner, exp.Cast) or not inner.to.is_type("double"):
        return node
    plain: exp.Expr = inner.this.unnest()
    return plain


def _count(node: exp.Expr) -> None:
    """FETCH FIRST (2) ROWS"""
    if isinstance(node.args.get("count"), exp.Paren):
        node.set("count", node.args["count"].unnest())


def _columns(node: exp.Expr) -> None:
    """FROM (VALUES (1)) v names its columns column1 and so on."""
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias) and not alias.columns and node.expressions:
        width = len(node.expressions[0].expressions)
        alias.set("columns", [exp.to_identifier(f"column{number}") for number in range(1, width + 1)])


def _bare(node: exp.Expr) -> exp.Expr:
    inner = node.unnest()
    typed = isinstance(inner, exp.Cast) and inner.to.is_type("text") and _is_text(inner.this)
    return inner.this if typed else node


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


_POSTGRES = Dialect.get_or_raise("postgres")
_RESPELLED: tuple[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr], None]], ...] = (
    ((exp.JSONBExtract, exp.JSONBExtractScalar, exp.JSONBDeleteAtPath), _path),
    ((exp.JSONBContainsAnyTopKeys, exp.JSONBContainsAllTopKeys, exp.Sub), _names),
    ((exp.Anonymous,), _zone),
    ((exp.AtTimeZone,), _argument("zone")),
    ((exp.TimeToStr,), _format),
    ((exp.Extract,), _field),
    ((exp.Anonymous,), _spread),
    ((exp.Cast,), _padded),
    ((exp.Cast,), _interval),
    ((exp.Mul,), _multiple),
    ((exp.PercentileCont, exp.PercentileDisc), _fraction),
    ((exp.Fetch,), _count),
    ((exp.Values,), _columns),
    (_COMPARED, _list),
)  # fmt: skip
