"""Regular expressions: constant patterns that can be said to PostgreSQL and to Java with the same meaning.

Both look for a match anywhere. PostgreSQL's dot matches a line's end and its $ only the very end, so Java is told so.
Which of several matches is taken differs (PostgreSQL: the longest), so only patterns of one atom are replaced.
"""

from __future__ import annotations

import re

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.expr import BOOL, TEXT, Call, Expr, Lit, call, kind
from penstock.views.expressions.binder import Binder, Handler
from penstock.views.expressions.sql import Sql, fn, number, string
from penstock.views.expressions.strings import padded_text, text_of

_BRACKET = r"\[\^?(?:[^\[\]\\^&]|\\[.\-+*?|(){}^$/\]\[])+\]"
_ATOM = rf"(?:[^\\.*+?|(){{}}\[\]^$]|\.|\\[.*+?|(){{}}\[\]^$/\-\\]|\\d|{_BRACKET})"
_COUNT = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?"
_PIECE = re.compile(rf"{_ATOM}{_COUNT}|[(|^$]|\){_COUNT}")
_ONE_ATOM = re.compile(rf"{_ATOM}(?:[*+]|\{{\d{{1,3}}(?:,\d{{0,3}})?\}})?")
_ANCHORED = re.compile(rf"\^?{_ONE_ATOM.pattern}\$?")
_EMPTY = re.compile(r"(\*|\{0+(,\d*)?\})\$?$")  # may match nothing, of which the engines find different numbers
_HINT = "Allowed: letters, \\d, brackets like [^a-z0-9], . * + ? {m,n} ( ) | ^ $, and \\ before a special character."


def _pattern(binder: Binder, node: exp.Expr) -> str:
    pattern = binder.bind(node)
    if not isinstance(pattern, Lit) or pattern.value is None or kind(pattern.pg) != "text":
        raise UnsupportedQuery("a regular expression must be a constant", hint="Write the pattern as a literal.")
    return pattern.value


def java(pattern: str) -> str:
    """The pattern as Java reads it.

    >>> java("^a.c$")
    '(?s)^a.c\\\\z'
    """
    place, parts = 0, []
    while place < len(pattern):
        found = _PIECE.match(pattern, place)
        if found is None or pattern.startswith(("***", "(?"), place):
            raise UnsupportedQuery(f"the regular expression '{pattern}' is not supported in a view", hint=_HINT)
        parts.append({"$": "\\z"}.get(found[0], found[0].replace("\\d", "[0-9]")))
        place = found.end()
    try:
        re.compile(pattern)
    except re.error as error:
        raise UnsupportedQuery(f"the regular expression '{pattern}' is not valid: {error}", hint=_HINT) from None
    return f"(?s){''.join(parts)}"


def _bind_match(binder: Binder, node: exp.Expr) -> Expr:
    pattern = _pattern(binder, node.expression)
    java(pattern)
    op = "matches_any_case" if isinstance(node, exp.RegexpILike) else "matches"
    return call(op, padded_text(binder, node.this, "a regular expression"), pg=BOOL, detail=pattern)


def _checked(pattern: str, what: str) -> str:
    """One that matches the same part of a text in both engines, and never nothing."""
    if not _ANCHORED.fullmatch(pattern) or _EMPTY.search(pattern):
        raise UnsupportedQuery(
            f"{what} is supported for one character or bracket, repeated or not, between ^ and $",
            hint="Write it as '[^0-9]+' or '^0+'.",
        )
    java(pattern)
    return pattern


def _bind_replace(binder: Binder, node: exp.Expr) -> Expr:
    by, flags = _pattern(binder, node.args["replacement"]), node.args.get("modifiers")
    pattern = _checked(_pattern(binder, node.expression), "regexp_replace()")
    if (flags is not None and flags.name not in ("", "g")) or "\\" in by:
        raise UnsupportedQuery(
            "regexp_replace() replaces the first match, or every one ('g'), by plain text",
            hint="Write regexp_replace(x, '[^0-9]+', '', 'g').",
        )
    args = (text_of(binder, node.this, "regexp_replace"), Lit(by, TEXT, "string"))
    op = "regexp_replace" if flags is not None and flags.name == "g" else "regexp_replace_first"
    return call(op, *args, pg=TEXT, detail=pattern)


def first_match(value: Expr, pattern: str) -> Expr:
    """substring(x from pattern): NULL without a match."""
    return call("regexp_first", value, pg=TEXT, detail=_checked(pattern, "substring() of a pattern"))


def _bind_first(binder: Binder, node: exp.Expr) -> Expr:
    return first_match(text_of(binder, node.this, "regexp_substr"), _pattern(binder, node.expression))


def _spark_match(e: Call, value: Sql) -> Sql:
    flags = "(?iu)" if e.op == "matches_any_case" else ""
    return fn("REGEXP_LIKE", value, string(flags + java(e.detail)))


def _spark_replace(e: Call, value: Sql, by: Sql) -> Sql:
    assert isinstance(e.args[1], Lit)
    text = (e.args[1].value or "").replace("$", "\\$")
    pattern = java(e.detail)
    if e.op == "regexp_replace_first" and not e.detail.startswith("^"):  # an anchor lets one match in alone
        pattern, text = f"(?s)^(.*?){pattern.removeprefix('(?s)')}", f"$1{text}"
    return fn("REGEXP_REPLACE", value, string(pattern), string(text))


def _spark_first(e: Call, value: Sql) -> Sql:
    return fn("NULLIF", fn("REGEXP_EXTRACT", value, string(java(e.detail)), number("0")), string(""))


def _postgres_match(e: Call, value: Sql) -> Sql:
    like = exp.RegexpILike if e.op == "matches_any_case" else exp.RegexpLike
    return exp.Paren(this=like(this=value, expression=string(e.detail)))


BIND: dict[type[exp.Expr], Handler] = {
    exp.RegexpLike: _bind_match,
    exp.RegexpILike: _bind_match,
    exp.RegexpReplace: _bind_replace,
    exp.RegexpSubstr: _bind_first,
}
SPARK = {
    "matches": _spark_match, "matches_any_case": _spark_match, "regexp_replace": _spark_replace,
    "regexp_replace_first": _spark_replace, "regexp_first": _spark_first,
}  # fmt: skip
POSTGRES = {
    "matches": _postgres_match,
    "matches_any_case": _postgres_match,
    "regexp_replace": lambda e, a, b: fn("REGEXP_REPLACE", a, string(e.detail), b, string("g")),
    "regexp_replace_first": lambda e, a, b: fn("REGEXP_REPLACE", a, string(e.detail), b),
    "regexp_first": lambda e, a: fn("SUBSTRING", a, string(e.detail)),
}
