"""Values as JSON text, letter for letter as PostgreSQL writes them."""

from __future__ import annotations

from sqlglot import exp

from penstock.views.expr import TEXT, Call, Expr, Lit, call, kind
from penstock.views.expressions.binder import Handler, refuse_types
from penstock.views.expressions.sql import Sql, binary, case, cast, fn, number, pg_cast, string
from penstock.views.typer import type_name

_QUOTED = frozenset({"text", "uuid", "date", "timestamp"})
_JSON, _JSONB = 114, 3802


def json_value(value: Expr, *, binary: bool = True) -> Expr:
    """What to_json() gives; NULL is null. A value of type json keeps its letters, so it is none of a `binary` one."""
    exact = kind(value.pg) == "numeric" and value.pg.plain.decimal is not None  # held as text, it may be NaN
    if not (
        exact
        or kind(value.pg) in ("int", "bool", *_QUOTED)
        or value.pg.plain.oid in (_JSONB, *(() if binary else (_JSON,)))
    ):
        raise refuse_types("JSON", (value,))
    return call("json_value", value, pg=TEXT)


def json_key(value: Expr) -> Expr:
    """The key of an object; NULL is an error, as in PostgreSQL."""
    if kind(value.pg) not in ("int", "bool", "text"):
        raise refuse_types("a JSON key", (value,))
    return call("json_key", value, pg=TEXT)


# Backslash first: the others are written with one.
_ESCAPES = [
    ("\\", "\\\\"), ('"', '\\"'), ("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"),
    *((chr(code), f"\\u{code:04x}") for code in range(1, 32) if code not in (8, 9, 10, 12, 13)),
]  # fmt: skip


def quoted(text: str) -> str:
    r"""A text as PostgreSQL writes it in JSON.

    >>> print(quoted('say "\\n"'))
    "say \"\\n\""
    """
    for char, form in _ESCAPES:
        text = text.replace(char, form)
    return f'"{text}"'


def spark_quoted(value: Sql) -> Sql:
    """Few texts have anything to escape; those that do are replaced character by character."""
    escaped = value
    for char, form in _ESCAPES:
        code = fn("CHAR", _code(char)) if ord(char) < 32 else string(char)
        escaped = fn("REPLACE", escaped, code, string(form))
    special = fn("REGEXP_LIKE", value.copy(), string('[\\x00-\\x1f"\\\\]'))
    inside = case((special, escaped), default=value.copy())
    return fn("CONCAT", string('"'), inside, string('"'))


def _code(char: str) -> Sql:
    return number(str(ord(char)))


def _spark_value(e: Call, value: Sql) -> Sql:
    source = e.args[0].pg
    text: Sql = value if kind(source) in ("text", "uuid", "opaque") else cast(value, "string")
    if kind(source) == "timestamp":
        text = fn("REPLACE", text, string(" "), string("T"))
    if kind(source) in _QUOTED:
        text = spark_quoted(text) if kind(source) == "text" else fn("CONCAT", string('"'), text, string('"'))
    return fn("COALESCE", text, string("null"))


def _spark_key(e: Call, value: Sql) -> Sql:
    text = spark_quoted(value if kind(e.args[0].pg) == "text" else cast(value, "string"))
    return fn("COALESCE", text, fn("RAISE_ERROR", string("null value not allowed for object key")))


def _postgres_value(e: Call, value: Sql) -> Sql:
    source = e.args[0]
    if isinstance(source, Lit) or source.pg.plain.oid in (_JSON, _JSONB):
        value = pg_cast(value, type_name(source.pg))
    return fn("COALESCE", pg_cast(fn("TO_JSON", value), "text"), string("null"))


def _postgres_key(e: Call, value: Sql) -> Sql:
    # {"key" : 1} without its braces and its value; the function refuses NULL.
    whole = pg_cast(fn("JSON_BUILD_OBJECT", value, string("")), "text")
    return fn("SUBSTR", whole, number("2"), binary("-", fn("LENGTH", whole.copy()), number("7")))


BIND: dict[type[exp.Expr], Handler] = {}
SPARK = {"json_value": _spark_value, "json_key": _spark_key}
POSTGRES = {"json_value": _postgres_value, "json_key": _postgres_key}
