"""Short forms of PostgreSQL's SQL, written out in those that have rules: row comparisons, BETWEEN SYMMETRIC, format(),
overlay(), ESCAPE, FILTER and bool_or over windows, COLLATE "C", an order that nobody sees, subqueries in ON.

A result without a name keeps the one that PostgreSQL gives it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from penstock.errors import UnsupportedQuery

_SIGNS: tuple[type[exp.Expr], ...] = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
_STRICT: dict[type[exp.Expr], type[exp.Expr]] = {exp.LTE: exp.LT, exp.GTE: exp.GT}
_BYTES = frozenset({"C", "POSIX", "ucs_basic", "C.UTF-8"})


def write_out(tree: exp.Expr) -> None:
    """In place.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT (a, b) < (1, 2) AS x, format('%s: %s', a, b) FROM t", read="postgres")
    >>> write_out(query); query.sql("postgres")
    "SELECT (a < 1 OR (a = 1 AND b < 2)) AS x, CONCAT(a, ': ', b) AS format FROM t"
    """
    for kinds, written in _WRITTEN:
        for node in list(tree.find_all(*kinds)):
            written(node)


def _put(node: exp.Expr, new: exp.Expr, name: str = "") -> None:
    named = name and isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
    node.replace(exp.alias_(new, name) if named else new)


def _and(parts: list[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.and_(*parts, copy=False)) if len(parts) > 1 else parts[0]


def _or(parts: list[exp.Expr]) -> exp.Expr:
    return exp.Paren(this=exp.or_(*parts, copy=False)) if len(parts) > 1 else parts[0]


# Rows -----------------------------------------------------------------------------------------------------------------


def _cells(node: exp.Expr | None) -> list[exp.Expr]:
    """Of (a, b) or ROW(a, b)."""
    row = isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "ROW")
    return list(node.expressions) if row and node is not None else []


def _compared(node: exp.Expr) -> None:
    left, right = _cells(node.this), _cells(node.expression)
    if left and len(left) == len(right):
        _put(node, _rows(type(node), left, right), "?column?")


def _rows(sign: type[exp.Expr], left: list[exp.Expr], right: list[exp.Expr]) -> exp.Expr:
    """The first unequal pair decides; NULL in it makes the whole unknown."""

    def pair(how: type[exp.Expr], at: int) -> exp.Expr:
        return how(this=left[at].copy(), expression=right[at].copy())

    places = range(len(left))
    if sign in (exp.EQ, exp.NullSafeEQ):
        return _and([pair(sign, at) for at in places])
    if sign in (exp.NEQ, exp.NullSafeNEQ):
        return _or([pair(sign, at) for at in places])
    last = len(left) - 1
    found = [
        _and(
            [*(pair(exp.EQ, before) for before in range(at)), pair(sign if at == last else _STRICT.get(sign, sign), at)]
        )
        for at in places
    ]
    return _or(found)


def _among(node: exp.Expr) -> None:
    """(a, b) IN ((1, 2), (3, 4))"""
    left, listed = _cells(node.this), [_cells(one) for one in node.args.get("expressions") or []]
    if left and listed and all(len(one) == len(left) for one in listed):
        _put(node, _or([_rows(exp.EQ, left, one) for one in listed]), "?column?")


def _symmetric(node: exp.Expr) -> None:
    if node.args.get("symmetric"):
        ends = node.args["low"], node.args["high"]
        each = [exp.Between(this=node.this.copy(), low=a.copy(), high=b.copy()) for a, b in (ends, ends[::-1])]
        _put(node, _or(list(each)), "?column?")


# Text -----------------------------------------------------------------------------------------------------------------


def _format(node: exp.Expr) -> None:
    """format('%s of %s', a, b): NULL is nothing there."""
    pattern = node.this.unnest()
    pattern = pattern.this if isinstance(pattern, exp.Cast) else pattern
    parts = re.split(r"(%s|%%)", pattern.name) if isinstance(pattern, exp.Literal) and pattern.is_string else ["%"]
    values, made = list(node.expressions), list[exp.Expr]()
    if "%" in "".join(part for part in parts if part not in ("%s", "%%")) or parts.count("%s") != len(values):
        raise UnsupportedQuery(
            "format() is supported in a view with a constant text and one value for each %s",
            hint="Use || and concat().",
        )
    for part in parts:
        if part:
            made.append(values.pop(0).copy() if part == "%s" else exp.Literal.string("%" if part == "%%" else part))
    _put(node, exp.Concat(expressions=made or [exp.Literal.string("")], safe=False, coalesce=True), "format")


def _overlay(node: exp.Expr) -> None:
    """What is before the place, what is put there, and what is behind what it covers."""
    start, length = node.args["from_"], node.args.get("for_")
    put = node.expression.this if isinstance(node.expression, exp.Cast) else node.expression
    if length is None and isinstance(put, exp.Literal):
        length = exp.Literal.number(len(put.name))
    told = [one.name for one in (start, length) if isinstance(one, exp.Literal) and one.name.isdigit()]
    if len(told) < 2 or told[0] == "0":
        raise UnsupportedQuery("overlay() needs a constant place and length", hint="Write FROM 1 FOR 3.")
    first, count = map(int, told)
    before = exp.Substring(this=node.this.copy(), start=_number(1), length=_number(first - 1))
    behind = exp.Substring(this=node.this.copy(), start=_number(first + count))
    whole = exp.DPipe(
        this=exp.DPipe(this=before, expression=node.expression.copy(), safe=True), expression=behind, safe=True
    )
    _put(node, exp.Paren(this=whole), "overlay")


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _escape(node: exp.Expr) -> None:
    """LIKE 'a!%' ESCAPE '!' with a backslash."""
    if (pattern := _with_backslashes(node.this.expression, node.expression)) is not None:
        node.this.set("expression", pattern)
        _put(node, node.this, "?column?")


def _escape_function(node: exp.Expr) -> None:
    """As PostgreSQL prints it: ~~ like_escape('a!%'::text, '!'::text)."""
    if node.name.lower() == "like_escape" and (pattern := _with_backslashes(*node.expressions)) is not None:
        node.replace(pattern)


def _with_backslashes(*args: exp.Expr) -> exp.Expr | None:
    pattern, sign = (one.this if isinstance(one, exp.Cast) else one for one in args)
    if not (isinstance(pattern, exp.Literal) and isinstance(sign, exp.Literal) and len(sign.name) == 1):
        return None
    out, rest = list[str](), iter(pattern.name)
    for char in rest:
        if char == sign.name:
            literal = next(rest, None)
            if literal is None:
                return None
            out.append("\\" + literal)
        else:
            out.append("\\\\" if char == "\\" else char)
    return exp.Literal.string("".join(out))


def _counted_interval(node: exp.Expr) -> None:
    """(n || ' days')::interval is n * interval '1 day'."""
    assert isinstance(node, exp.Cast)
    joined = node.this.unnest()
    if not (node.to.is_type("interval") and isinstance(joined, exp.DPipe)):
        return
    count, unit = joined.this.unnest(), joined.expression.unnest()
    unit = unit.this if isinstance(unit, exp.Cast) else unit
    if isinstance(count, exp.Cast) and count.to.is_type("text"):  # as PostgreSQL prints it, or people write it
        count = count.this
    if isinstance(unit, exp.Literal) and re.fullmatch(r" ?[a-z]+ ?", unit.name):
        _put(node, _times(count, unit.name.strip()))


def _made_interval(node: exp.Expr) -> None:
    """make_interval(days => n)"""
    given = [(key, value) for key, value in node.args.items() if value]
    if len(given) == 1 and isinstance(given[0][1], exp.Kwarg):
        _put(node, _times(given[0][1].expression, given[0][1].this.name.rstrip("s")))


def _times(count: exp.Expr, unit: str) -> exp.Expr:
    one = exp.Interval(this=exp.Literal.string(f"1 {unit}"))
    return exp.Paren(this=exp.Mul(this=exp.Paren(this=count.copy()), expression=one))


def _collate(node: exp.Expr) -> None:
    if node.expression.name in _BYTES:
        _put(node, node.this, node.this.name)


# Windows --------------------------------------------------------------------------------------------------------------


def _kept(node: exp.Expr) -> None:
    """f(x) FILTER (WHERE c) OVER (…) is f(CASE WHEN c THEN x END) OVER (…)."""
    inside = node.this
    if not isinstance(inside, exp.Filter) or not isinstance(inside.this, _SKIP_NULL) or inside.this.expressions:
        return
    call, condition = inside.this, inside.expression.this
    value = exp.Literal.number(1) if isinstance(call.this, exp.Star) or call.this is None else call.this
    if not isinstance(value, exp.Distinct):
        call.set("this", exp.Case(ifs=[exp.If(this=condition, true=value)]))
        node.set("this", call)


_SKIP_NULL = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count, exp.LogicalAnd, exp.LogicalOr)


def _truth(node: exp.Expr) -> None:
    """bool_or(x) OVER (…): the greatest of 0 and 1 is 1."""
    call = node.this
    every = isinstance(call, exp.LogicalAnd) or (isinstance(call, exp.Anonymous) and call.name.lower() == "every")
    if not every and not isinstance(call, exp.LogicalOr):
        return
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ("bool_and" if every else "bool_or")
    value = call.expressions[0] if isinstance(call, exp.Anonymous) else call.this
    yes = exp.If(this=value.copy(), true=exp.Literal.number(1))
    no = exp.If(this=exp.Not(this=exp.Paren(this=value.copy())), true=exp.Literal.number(0))
    window = node.copy()
    window.set("this", (exp.Min if every else exp.Max)(this=exp.Case(ifs=[yes, no])))
    _put(node, exp.Paren(this=exp.EQ(this=window, expression=exp.Literal.number(1))), name)


# Clauses --------------------------------------------------------------------------------------------------------------


def _order(node: exp.Expr) -> None:
    """The order of a subquery without LIMIT is seen by nobody, unless something above takes rows as they come."""
    above = node.parent
    if not isinstance(above, exp.Query) or above.args.get("limit") or above.args.get("offset"):
        return
    once = above.args.get("distinct")
    if not (isinstance(once, exp.Expr) and once.args.get("on")) and not _takes_as_they_come(above.root()):
        above.set("order", None)


def _takes_as_they_come(tree: exp.Expr) -> bool:
    """Aggregates and windows whose answer depends on an order that they do not ask for; LIMIT and DISTINCT ON without
    ORDER BY."""
    for node in tree.find_all(*_COLLECTING, exp.Anonymous, exp.Window, exp.Query):
        if isinstance(node, exp.Anonymous) and node.name.lower() not in ("jsonb_agg", "jsonb_object_agg"):
            continue
        if isinstance(node, exp.Query) and (node.args.get("order") or not _chooses(node)):
            continue
        if isinstance(node, exp.Window) and node.args.get("order"):
            continue
        if isinstance(node, (*_COLLECTING, exp.Anonymous)) and node.find(exp.Order):
            continue
        return True
    return False


def _chooses(query: exp.Expr) -> bool:
    once = query.args.get("distinct")
    return bool(
        query.args.get("limit") or query.args.get("offset") or (isinstance(once, exp.Expr) and once.args.get("on"))
    )


_COLLECTING = (exp.ArrayAgg, exp.GroupConcat, exp.JSONArrayAgg, exp.JSONObjectAgg, exp.JSONBObjectAgg, exp.AnyValue)


_WRITTEN: tuple[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr], None]], ...] = (
    (_SIGNS, _compared),
    ((exp.In,), _among),
    ((exp.Between,), _symmetric),
    ((exp.Format,), _format),
    ((exp.Overlay,), _overlay),
    ((exp.Escape,), _escape),
    ((exp.Anonymous,), _escape_function),
    ((exp.Cast,), _counted_interval),
    ((exp.MakeInterval,), _made_interval),
    ((exp.Collate,), _collate),
    ((exp.Window,), _kept),
    ((exp.Window,), _truth),
    ((exp.Order,), _order),
)


def ask_in_where(tree: exp.Expr) -> None:
    """A subquery in the ON of inner joins is as good in WHERE; in place."""
    for select in tree.find_all(exp.Select):
        joins = select.args.get("joins") or []
        if any(join.args.get("side") or join.this.args.get("joins") for join in joins):
            continue
        for join in joins:
            on = join.args.get("on")
            if on is not None and on.find(exp.Query):
                select.where(on.copy(), copy=False)
                join.set("on", None)
                join.set("kind", "CROSS")
