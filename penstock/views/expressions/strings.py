"""Text cut, padded, searched and taken apart; lengths and places are arguments of any kind, not only constants."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views.expr import BOOL, INT4, TEXT, Call, Expr, call, kind
from penstock.views.expressions import arrays, json_access, json_change
from penstock.views.expressions.binder import Binder, Handler, refuse_types, refused
from penstock.views.expressions.casts import cast_to
from penstock.views.expressions.convert import convert, plain, typed
from penstock.views.expressions.sql import Sql, binary, case, fn, number, string

_TEXT_ONLY: dict[type[exp.Expr], tuple[str, ...]] = {  # the arguments, by the parser's names
    exp.Reverse: ("this",),
    exp.MD5: ("this",),
    exp.Ascii: ("this",),
    exp.BitLength: ("this",),
    exp.StrPosition: ("this", "substr"),
    exp.StartsWith: ("this", "expression"),
    exp.Translate: ("this", "from_", "to"),
}
_RESULTS: dict[type[exp.Expr], PgType] = {
    exp.Ascii: INT4,
    exp.BitLength: INT4,
    exp.StrPosition: INT4,
    exp.StartsWith: BOOL,
}
_OPS: dict[type[exp.Expr], str] = {
    exp.Reverse: "reverse", exp.MD5: "md5", exp.Ascii: "ascii", exp.BitLength: "bit_length", exp.StrPosition: "strpos",
    exp.StartsWith: "starts_with", exp.Translate: "translate",
}  # fmt: skip


def text_of(binder: Binder, node: exp.Expr, what: str) -> Expr:
    arg = plain(binder.bind(node))
    if kind(arg.pg) != "text":
        raise refuse_types(what, (arg,))
    return arg


def padded_text(binder: Binder, node: exp.Expr, what: str) -> Expr:
    """What a pattern is compared with: the blanks at the end of a char(n) count there."""
    arg = binder.bind(node)
    return arg if kind(arg.pg) == "char" else text_of(binder, node, what)


def integer_of(binder: Binder, node: exp.Expr, what: str) -> Expr:
    arg = binder.bind(node)
    if getattr(arg, "bare", False):
        arg = typed(arg, INT4)  # type: ignore[arg-type]
    if kind(arg.pg) != "int" or arg.spark == "bigint":
        raise refuse_types(what, (arg,))
    return convert(arg, INT4, "int")


def _bind_text_only(binder: Binder, node: exp.Expr) -> Expr:
    op = _OPS[type(node)]
    args = [text_of(binder, node.args[name], op) for name in _TEXT_ONLY[type(node)]]
    return call(op, *args, pg=_RESULTS.get(type(node), TEXT))


def _bind_side(binder: Binder, node: exp.Expr) -> Expr:
    op = "left" if isinstance(node, exp.Left) else "right"
    return call(op, text_of(binder, node.this, op), integer_of(binder, node.expression, op), pg=TEXT)


def _bind_pad(binder: Binder, node: exp.Expr) -> Expr:
    op = "lpad" if node.args.get("is_left") else "rpad"
    args = [text_of(binder, node.this, op), integer_of(binder, node.expression, op)]
    fill = node.args.get("fill_pattern")
    return call(op, *args, *([text_of(binder, fill, op)] if fill is not None else []), pg=TEXT)


def _bind_repeat(binder: Binder, node: exp.Expr) -> Expr:
    return call(
        "repeat", text_of(binder, node.this, "repeat"), integer_of(binder, node.args["times"], "repeat"), pg=TEXT
    )


def _bind_split(binder: Binder, node: exp.Expr) -> Expr:
    what = "split_part"
    value, between = (text_of(binder, node.args[name], what) for name in ("this", "delimiter"))
    return call(what, value, between, integer_of(binder, node.args["part_index"], what), pg=TEXT)


def joinable(binder: Binder, node: exp.Expr, what: str) -> Expr:
    """An argument of concat() and the like, which write values as a cast to text does; but for true, which is t."""
    arg = plain(binder.bind(node))
    if kind(arg.pg) not in ("text", "int", "date", "timestamp", "numeric", "uuid"):
        raise refuse_types(what, (arg,))
    return arg if kind(arg.pg) == "text" else cast_to(arg, TEXT)


def _bind_concat_ws(binder: Binder, node: exp.Expr) -> Expr:
    return call("concat_ws", *(joinable(binder, part, "concat_ws") for part in node.expressions), pg=TEXT)


def _bind_to_char(binder: Binder, node: exp.Expr) -> Expr:
    arg, pattern = binder.bind(node.this), node.args["format"]
    if kind(arg.pg) not in ("date", "timestamp", "timestamptz") or not pattern.is_string:
        raise refuse_types("to_char", (arg,))
    return call("to_char", arg, pg=TEXT, detail=_fields(pattern.name))


# As the parser has them: in PostgreSQL and in Spark.
_FIELDS = {
    "%Y": ("YYYY", "yyyy"), "%m": ("MM", "MM"), "%d": ("DD", "dd"), "%H": ("HH24", "HH"), "%I": ("HH12", "hh"),
    "%M": ("MI", "mm"), "%S": ("SS", "ss"), "AM": ("AM", "a"), "PM": ("PM", "a"), "F%month": ("FMMonth", "MMMM"),
    "Mon": ("Mon", "MMM"), "FM%uay": ("FMDay", "EEEE"), "%uy": ("Dy", "EEE"), "Q": ("Q", "q"),
}  # fmt: skip
_PARTS = re.compile(rf"{'|'.join(_FIELDS)}|\"[^\"'\\\\]*\"|[-/:., ]")


def _fields(pattern: str) -> str:
    """The pattern, if it is made of fields that both engines write alike."""
    if "".join(_PARTS.findall(pattern)) != pattern:
        raise UnsupportedQuery(
            "this pattern of to_char() is not supported in a view",
            hint='Fields: YYYY, MM, DD, HH24, HH12, MI, SS, AM, Mon, FMMonth, Dy, FMDay, Q; - / : . , "text" between.',
        )
    return pattern


def _pattern(detail: str, engine: int) -> Sql:
    parts = (_FIELDS[part][engine] if part in _FIELDS else part for part in _PARTS.findall(detail))
    return string("".join(part.replace('"', "'") if engine else part for part in parts))


# Functions that the parser knows only by name -------------------------------------------------------------------------


def _octet_length(binder: Binder, node: exp.Expr) -> Expr:
    return call("octet_length", text_of(binder, node.expressions[0], "octet_length"), pg=INT4)


_NAMED: dict[str, Callable[[Binder, exp.Expr], Expr]] = {
    "octet_length": _octet_length,
    **arrays.NAMED,
    **json_access.NAMED,
    **json_change.NAMED,
}


def _bind_named(binder: Binder, node: exp.Expr) -> Expr:
    found = _NAMED.get(node.name.lower())
    if found is None:
        raise refused(node)
    return found(binder, node)


# Rendering ------------------------------------------------------------------------------------------------------------


def _spark_left(e: Call, a: Sql, n: Sql) -> Sql:
    less = fn("GREATEST", binary("+", fn("CHAR_LENGTH", a.copy()), n.copy()), number("0"))
    length = case((binary(">=", n, number("0")), n.copy()), default=less)
    return fn("SUBSTR", a, number("1"), length)


def _spark_right(e: Call, a: Sql, n: Sql) -> Sql:
    skipped = fn("GREATEST", binary("-", fn("CHAR_LENGTH", a.copy()), n.copy()), number("0"))
    start = case((binary(">=", n, number("0")), skipped), default=binary("*", number("-1"), n.copy()))
    return fn("SUBSTR", a, binary("+", start, number("1")))


def _plainly(name: str) -> Callable[..., Sql]:
    return lambda e, *args: fn(name, *args)


BIND: dict[type[exp.Expr], Handler] = {
    **dict.fromkeys(_TEXT_ONLY, _bind_text_only),
    exp.Left: _bind_side,
    exp.Right: _bind_side,
    exp.Pad: _bind_pad,
    exp.Repeat: _bind_repeat,
    exp.SplitPart: _bind_split,
    exp.ConcatWs: _bind_concat_ws,
    exp.TimeToStr: _bind_to_char,
    exp.Anonymous: _bind_named,
}
_ALIKE = (
    "reverse", "md5", "ascii", "bit_length", "translate", "lpad", "rpad", "repeat", "split_part", "concat_ws",
    "octet_length",
)  # fmt: skip
_SHARED = {op: _plainly(op.upper()) for op in _ALIKE}
SPARK = {
    **_SHARED,
    "left": _spark_left,
    "right": _spark_right,
    "strpos": _plainly("INSTR"),
    "starts_with": _plainly("STARTSWITH"),
    "to_char": lambda e, a: fn("DATE_FORMAT", a, _pattern(e.detail, 1)),
}
POSTGRES = {
    **_SHARED,
    "left": _plainly("LEFT"),
    "right": _plainly("RIGHT"),
    "strpos": _plainly("STRPOS"),
    "starts_with": _plainly("STARTS_WITH"),
    "to_char": lambda e, a: fn("TO_CHAR", a, _pattern(e.detail, 0)),
}
