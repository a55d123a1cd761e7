"""Text: characters are code points, patterns are constants, and nothing but text and integers is joined into text."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.expr import BOOL, INT4, TEXT, Call, Expr, Lit, call, kind
from penstock.views.expressions.binder import Binder, Handler, refuse_types
from penstock.views.expressions.casts import cast_to
from penstock.views.expressions.convert import plain
from penstock.views.expressions.json_access import JSONB
from penstock.views.expressions.json_change import concatenated
from penstock.views.expressions.patterns import first_match
from penstock.views.expressions.sql import Sql, binary, case, chain, fn, number, string
from penstock.views.expressions.strings import integer_of, joinable, padded_text

_TRIMS = {"BOTH": "btrim", "": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _text(binder: Binder, node: exp.Expr, what: str) -> Expr:
    arg = plain(binder.bind(node))
    if kind(arg.pg) != "text":
        raise refuse_types(what, (arg,))
    return arg


def _bind_case_fold(binder: Binder, node: exp.Expr) -> Expr:
    op = "lower" if isinstance(node, exp.Lower) else "upper"
    return call(op, _text(binder, node.this, op), pg=TEXT)


def _bind_length(binder: Binder, node: exp.Expr) -> Expr:
    return call("length", _text(binder, node.this, "length"), pg=INT4)


def _bind_substring(binder: Binder, node: exp.Expr) -> Expr:
    start, length = node.args.get("start"), node.args.get("length")
    value = _text(binder, node.this, "substring")
    start = start.this if isinstance(start, exp.Cast) and start.to.is_type("text") else start
    if isinstance(start, exp.Literal) and start.is_string and length is None:
        return first_match(value, start.name)
    if not all(isinstance(binder.bind(one), Lit) for one in (start, length) if one is not None):
        places = [integer_of(binder, one, "substring") for one in (start, length) if one is not None]
        return call("substring_at", value, *places, pg=TEXT)
    first = _integer(binder, start)
    if length is None:
        return call("substring", value, pg=TEXT, detail=f"{max(first, 1)},{2**31 - 1}")
    count = _integer(binder, length)
    if count < 0:
        raise UnsupportedQuery("substring() with a negative length", hint="PostgreSQL refuses it too.")
    begin = max(first, 1)
    return call("substring", value, pg=TEXT, detail=f"{begin},{max(first + count - begin, 0)}")


def _integer(binder: Binder, node: exp.Expr | None) -> int:
    value = binder.bind(node) if node is not None else None
    if not isinstance(value, Lit) or value.value is None or kind(value.pg) != "int":
        raise UnsupportedQuery("substring() needs a constant start and length", hint="Write substring(x, 1, 3).")
    return int(value.value)


def _bind_trim(binder: Binder, node: exp.Expr) -> Expr:
    op = _TRIMS[(node.args.get("position") or "").upper()]
    chars = node.args.get("expression")
    args = [_text(binder, part, op) for part in (node.this, chars) if part is not None]
    return call(op, *args, pg=TEXT)


def _bind_replace(binder: Binder, node: exp.Expr) -> Expr:
    parts = (node.this, node.expression, node.args["replacement"])
    return call("replace", *(_text(binder, part, "replace") for part in parts), pg=TEXT)


def _bind_concat(binder: Binder, node: exp.Expr) -> Expr:
    return call("concat", *(joinable(binder, part, "joining text") for part in node.expressions), pg=TEXT)


def _bind_pipe(binder: Binder, node: exp.Expr) -> Expr:
    if binder.type_of(node).oid == JSONB.oid:
        return concatenated(binder, node)
    return call("pipe", _as_text(binder, node.this), _as_text(binder, node.expression), pg=TEXT)


def _as_text(binder: Binder, node: exp.Expr) -> Expr:
    """An operand of ||: what is not text is cast to it."""
    arg = plain(binder.bind(node))
    return arg if kind(arg.pg) == "text" else cast_to(arg, TEXT)


def _bind_like(binder: Binder, node: exp.Expr) -> Expr:
    op = "ilike" if isinstance(node, exp.ILike) else "like"
    pattern = binder.bind(node.expression)
    if not isinstance(pattern, Lit) or pattern.value is None or kind(pattern.pg) != "text":
        raise UnsupportedQuery(f"{op.upper()} needs a constant pattern", hint="Write the pattern as a literal.")
    found = call(op, padded_text(binder, node.this, op), pg=BOOL, detail=escaped(pattern.value))
    return call("not", found, pg=BOOL) if node.args.get("negate") else found


def escaped(pattern: str) -> str:
    r"""The same pattern with a backslash only where Spark accepts one: before _ % and itself.

    >>> escaped(r"a\%b\c")
    'a\\%bc'
    """
    out, rest = [], iter(pattern)
    for char in rest:
        if char != "\\":
            out.append(char)
            continue
        literal = next(rest, None)
        if literal is None:
            raise UnsupportedQuery("a LIKE pattern ends with its escape character", hint="Double the backslash.")
        out.append("\\" + literal if literal in "%_\\" else literal)
    return "".join(out)


def _concat_spark(e: Call, *args: Sql) -> Sql:
    return fn("CONCAT", *(fn("COALESCE", arg, string("")) for arg in args))


def _spark_substring_at(e: Call, value: Sql, start: Sql, *length: Sql) -> Sql:
    """Places before the first are counted, and empty; a negative length is an error, as in PostgreSQL."""
    first = fn("GREATEST", start.copy(), number("1"))
    if not length:
        return fn("SUBSTR", value, first)
    count = fn("GREATEST", binary("-", binary("+", start, length[0].copy()), first.copy()), number("0"))
    wrong = fn("RAISE_ERROR", string("negative substring length not allowed"))
    return case((binary("<", length[0], number("0")), wrong), default=fn("SUBSTR", value, first, count))


def _substring(e: Call, value: Sql) -> Sql:
    start, length = e.detail.split(",")
    return fn("SUBSTR", value, number(start), number(length))


BIND: dict[type[exp.Expr], Handler] = {
    exp.Lower: _bind_case_fold,
    exp.Upper: _bind_case_fold,
    exp.Length: _bind_length,
    exp.Substring: _bind_substring,
    exp.Trim: _bind_trim,
    exp.Replace: _bind_replace,
    exp.Concat: _bind_concat,
    exp.DPipe: _bind_pipe,
    exp.Like: _bind_like,
    exp.ILike: _bind_like,
}
_SHARED = {
    "lower": lambda e, a: fn("LOWER", a),
    "upper": lambda e, a: fn("UPPER", a),
    "length": lambda e, a: fn("CHAR_LENGTH", a),
    "substring": _substring,
    "replace": lambda e, a, b, c: fn("REPLACE", a, b, c),
    "like": lambda e, a: binary("LIKE", a, string(e.detail)),
    "ilike": lambda e, a: binary("ILIKE", a, string(e.detail)),
    "ltrim": lambda e, *args: fn("LTRIM", *args),
    "rtrim": lambda e, *args: fn("RTRIM", *args),
    "btrim": lambda e, *args: fn("BTRIM", *args),
    "rtrim_blanks": lambda e, a: fn("RTRIM", a),
}
SPARK = {
    **_SHARED,
    "concat": _concat_spark,
    "pipe": lambda e, a, b: fn("CONCAT", a, b),
    "substring_at": _spark_substring_at,
    # Spark's two-argument LTRIM and RTRIM take the characters first.
    "ltrim": lambda e, *args: fn("LTRIM", *reversed(args)),
    "rtrim": lambda e, *args: fn("RTRIM", *reversed(args)),
}
POSTGRES = {
    **_SHARED,
    "concat": lambda e, *args: fn("CONCAT", *args),
    "pipe": lambda e, a, b: chain("||", a, b),
    "substring_at": lambda e, *args: fn("SUBSTR", *args),
}
