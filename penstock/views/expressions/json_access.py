"""Into jsonb values: ->, ->>, #>, #>>, ?, jsonb_typeof, jsonb_array_length, jsonb_extract_path.

A jsonb value is held as the text that PostgreSQL prints, in which equal values look alike. Spark's own JSON functions
write numbers and objects in other letters (1.50 as 1.5), so members are cut out of that text instead, token by token.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views.expr import BOOL, INT4, TEXT, Call, Expr, Lit, call, kind
from penstock.views.expressions.binder import Binder, Handler, refuse_types, refused
from penstock.views.expressions.convert import convert, plain
from penstock.views.expressions.json import quoted, spark_quoted
from penstock.views.expressions.sql import Sql, binary, case, cast, chain, column, fn, is_null, number, pg_cast, string

JSON = PgType(114, -1, "json")
JSONB = PgType(3802, -1, "jsonb")


def jsonb(value: Expr, what: str) -> Expr:
    if value.pg.plain.oid != JSONB.oid or value.spark != "string":
        raise UnsupportedQuery(
            f"{what} on {value.pg.name} is not supported in a view",
            hint="It works on jsonb; make the column jsonb in the source.",
        )
    return value


# Binding --------------------------------------------------------------------------------------------------------------


def _bind_get(binder: Binder, node: exp.Expr) -> Expr:
    sign = "->>" if isinstance(node, exp.JSONExtractScalar) else "->"
    doc = jsonb(binder.bind(node.this), sign)
    found = _step(binder, doc, node.expression, sign)
    return call("json_text", found, pg=TEXT) if sign == "->>" else found


def _step(binder: Binder, doc: Expr, path: exp.Expr, sign: str) -> Expr:
    if isinstance(path, exp.JSONPath):
        (part,) = path.expressions[1:]
        if isinstance(part, exp.JSONPathKey) and isinstance(part.this, str):
            return call("json_get", doc, Lit(part.this, TEXT, "string"), pg=JSONB, spark="string")
        if isinstance(part, exp.JSONPathSubscript) and isinstance(part.this, int):
            return call("json_at", doc, Lit(str(part.this), INT4, "int"), pg=JSONB, spark="string")
        raise refused(path)
    key = plain(binder.bind(path))
    if kind(key.pg) == "text":
        return call("json_get", doc, key, pg=JSONB, spark="string")
    if kind(key.pg) == "int" and key.spark != "bigint":
        return call("json_at", doc, convert(key, INT4, "int"), pg=JSONB, spark="string")
    raise refuse_types(sign, (doc, key))


def _bind_path(binder: Binder, node: exp.Expr) -> Expr:
    sign = "#>>" if isinstance(node, exp.JSONBExtractScalar) else "#>"
    doc = jsonb(binder.bind(node.this), sign)
    return _path(doc, path_steps(node.expression, sign), text=sign == "#>>")


def path_steps(path: exp.Expr, sign: str) -> list[str]:
    if not (isinstance(path, exp.Literal) and path.is_string and re.fullmatch(r"\{[^\"\\{}]*\}", path.name)):
        raise UnsupportedQuery(f"{sign} needs a constant path", hint="Write it as '{a,b,0}', without quotes in it.")
    steps = [part.strip() for part in path.name[1:-1].split(",")] if path.name != "{}" else []
    if any(not part or part.upper() == "NULL" for part in steps):
        raise UnsupportedQuery(f"{sign} needs a path of names", hint="Write it as '{a,b,0}'.")
    return steps


def _path(doc: Expr, steps: list[str], *, text: bool) -> Expr:
    for step in steps:
        doc = call("json_step", doc, pg=JSONB, spark="string", detail=step)
    return call("json_text", doc, pg=TEXT) if text else doc


def _bind_has(binder: Binder, node: exp.Expr) -> Expr:
    doc, key = jsonb(binder.bind(node.this), "?"), plain(binder.bind(node.expression))
    if kind(key.pg) != "text":
        raise refuse_types("?", (doc, key))
    return call("json_has", doc, key, pg=BOOL)


def _named_of_one(op: str, pg: PgType) -> Callable[[Binder, exp.Expr], Expr]:
    def bind(binder: Binder, node: exp.Expr) -> Expr:
        if len(node.expressions) != 1:
            raise refused(node)
        return call(op, jsonb(binder.bind(node.expressions[0]), f"{node.name.lower()}()"), pg=pg)

    return bind


def _named_path(*, text: bool) -> Callable[[Binder, exp.Expr], Expr]:
    def bind(binder: Binder, node: exp.Expr) -> Expr:
        doc, *steps = node.expressions
        if not all(isinstance(step, exp.Literal) and step.is_string for step in steps):
            raise UnsupportedQuery(f"{node.name.lower()}() needs constant names", hint="Write them as literals.")
        doc = jsonb(binder.bind(doc), f"{node.name.lower()}()")
        return _path(doc, [step.name for step in steps], text=text)

    return bind


NAMED: dict[str, Callable[[Binder, exp.Expr], Expr]] = {
    "jsonb_typeof": _named_of_one("json_typeof", TEXT),
    "jsonb_array_length": _named_of_one("json_length", INT4),
    "jsonb_extract_path": _named_path(text=False),
    "jsonb_extract_path_text": _named_path(text=True),
}
BIND: dict[type[exp.Expr], Handler] = {
    exp.JSONExtract: _bind_get,
    exp.JSONExtractScalar: _bind_get,
    exp.JSONBExtract: _bind_path,
    exp.JSONBExtractScalar: _bind_path,
    exp.JSONBContainsTopKey: _bind_has,
}

# Spark ----------------------------------------------------------------------------------------------------------------

_TOKENS = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]|, |: |[^"{}\[\],: ]+'
_KEY = r'^"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def let(value: Sql, body: Callable[[Sql], Sql], name: str = "d") -> Sql:
    """`body` over a value that is computed once."""
    return fn("GET", fn("TRANSFORM", fn("ARRAY", value), lambda_(body(column(name)), name)), number("0"))


def lambda_(body: Sql, *names: str) -> Sql:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(name) for name in names])


def members(doc: Sql) -> Sql:
    """The members of an object, each as `"key": value`, or the elements of an array, as they stand in the text."""

    def step(depth: Sql, text: Sql, found: Sql) -> Sql:
        return fn("NAMED_STRUCT", string("d"), depth, string("c"), text, string("o"), found)

    d, c, o, t = column("d", "a"), column("c", "a"), column("o", "a"), column("t")
    more, pushed = fn("CONCAT", c, t), fn("ARRAY_APPEND", o, c)
    outermost = binary("=", d, number("1"))
    opened = step(binary("+", d, number("1")), case((binary("=", d, number("0")), string("")), default=more), o)
    last = case((chain("AND", outermost, binary("<>", c, string(""))), pushed), default=o)
    closed = step(binary("-", d, number("1")), case((outermost, string("")), default=more), last)
    following = case(
        (_is_one(t, "{", "["), opened),
        (_is_one(t, "}", "]"), closed),
        (chain("AND", binary("=", t, string(", ")), outermost), step(number("1"), string(""), pushed)),
        default=step(d, more, o),
    )
    tokens = fn("REGEXP_EXTRACT_ALL", doc, string(_TOKENS), number("0"))
    start = step(number("0"), string(""), cast(fn("ARRAY"), "array<string>"))
    return fn("AGGREGATE", tokens, start, lambda_(following, "a", "t"), lambda_(column("o", "a"), "a"))


def _is_one(value: Sql, *texts: str) -> Sql:
    return chain("OR", *(binary("=", value.copy(), string(text)) for text in texts))


def starts(doc: Sql, text: str) -> Sql:
    return fn("STARTSWITH", doc, string(text))


def key_of(member: Sql) -> Sql:
    """The key of a member, as a text."""
    return unquoted(fn("REGEXP_EXTRACT", member, string(_KEY), number("0")))


def value_of(member: Sql) -> Sql:
    """Behind the key, a colon and a blank."""
    length = fn("CHAR_LENGTH", fn("REGEXP_EXTRACT", member.copy(), string(_KEY), number("0")))
    return fn("SUBSTR", member, binary("+", length, number("3")))


def unquoted(token: Sql) -> Sql:
    """A JSON string as the text it stands for."""
    options = fn("MAP", string("mode"), string("FAILFAST"))
    listed = fn("FROM_JSON", fn("CONCAT", string("["), token, string("]")), string("array<string>"), options)
    return fn("GET", listed, number("0"))


def text_of(value: Sql) -> Sql:
    """What ->> gives of a value."""

    def body(v: Sql) -> Sql:
        nothing = binary("=", v, string("null"))
        return case((nothing, exp.Null()), (starts(v.copy(), '"'), unquoted(v.copy())), default=v.copy())

    return let(value, body, "v")


def member(doc: Sql, key: Sql) -> Sql:
    """The value of an object's member, NULL without one; `key` as JSON writes it."""
    start = fn("CONCAT", key, string(": "))
    one = fn("FILTER", members(doc), lambda_(fn("STARTSWITH", column("m"), start), "m"))
    return let(fn("GET", one, number("0")), value_of, "m")


def _by_place(doc: Sql, place: Sql) -> Sql:
    def body(found: Sql) -> Sql:
        behind = binary("+", fn("SIZE", found.copy()), place.copy())
        return fn("GET", found, case((binary("<", place, number("0")), behind), default=place.copy()))

    return let(members(doc), body, "e")


def _spark_get(e: Call, doc: Sql, key: Sql) -> Sql:
    return let(doc, lambda d: case((starts(d, "{"), member(d.copy(), spark_quoted(key))), default=exp.Null()))


def _spark_at(e: Call, doc: Sql, place: Sql) -> Sql:
    """PostgreSQL takes a value that is neither an object nor an array for an array of it, here and not in a path."""

    def body(d: Sql) -> Sql:
        first = chain("OR", *(binary("=", place.copy(), number(one)) for one in ("0", "-1")))
        return case(
            (starts(d, "["), _by_place(d.copy(), place)), (starts(d.copy(), "{"), exp.Null()), (first, d.copy()),
            default=exp.Null(),
        )  # fmt: skip

    return let(doc, body)


def _spark_step(e: Call, doc: Sql) -> Sql:
    def body(d: Sql) -> Sql:
        branches = [(starts(d, "{"), member(d.copy(), string(quoted(e.detail))))]
        if re.fullmatch(r"\s*[+-]?\d{1,9}", e.detail):
            branches.append((starts(d.copy(), "["), _by_place(d.copy(), number(str(int(e.detail))))))
        return case(*branches, default=exp.Null())

    return let(doc, body)


def _spark_has(e: Call, doc: Sql, key: Sql) -> Sql:
    name = spark_quoted(key)
    start = fn("CONCAT", name, string(": "))

    def body(d: Sql) -> Sql:
        among = fn("EXISTS", members(d.copy()), lambda_(fn("STARTSWITH", column("m"), start), "m"))
        element = fn("ARRAY_CONTAINS", members(d.copy()), name.copy())
        itself = binary("=", d.copy(), name.copy())
        return case((starts(d, "{"), among), (starts(d.copy(), "["), element), default=itself)

    return let(doc, body)


def _spark_typeof(e: Call, doc: Sql) -> Sql:
    def body(d: Sql) -> Sql:
        kinds = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}
        first = fn("SUBSTR", d, number("1"), number("1"))
        known = [(binary("=", first.copy(), string(sign)), string(name)) for sign, name in kinds.items()]
        return case((is_null(d.copy()), exp.Null()), *known, default=string("number"))

    return let(doc, body)


def _spark_length(e: Call, doc: Sql) -> Sql:
    wrong = fn("RAISE_ERROR", string("cannot get array length of a value that is no array"))
    return let(doc, lambda d: case(
        (is_null(d), exp.Null()), (starts(d.copy(), "["), fn("SIZE", members(d.copy()))), default=cast(wrong, "int")
    ))  # fmt: skip


def _pg(name: str) -> Callable[..., Sql]:
    return lambda e, doc, *more: fn(name, pg_cast(doc, "jsonb"), *more)


def _pg_text(e: Call, doc: Sql) -> Sql:
    return fn("JSONB_EXTRACT_PATH_TEXT", pg_cast(doc, "jsonb"), exp.Var(this="VARIADIC CAST('{}' AS text[])"))


SPARK = {
    "json_get": _spark_get, "json_at": _spark_at, "json_step": _spark_step, "json_has": _spark_has,
    "json_text": lambda e, value: text_of(value), "json_typeof": _spark_typeof, "json_length": _spark_length,
}  # fmt: skip
POSTGRES = {
    "json_get": _pg("JSONB_OBJECT_FIELD"), "json_at": _pg("JSONB_ARRAY_ELEMENT"),
    "json_step": lambda e, doc: fn("JSONB_EXTRACT_PATH", pg_cast(doc, "jsonb"), string(e.detail)),
    "json_has": _pg("JSONB_EXISTS"), "json_text": _pg_text, "json_typeof": _pg("JSONB_TYPEOF"),
    "json_length": _pg("JSONB_ARRAY_LENGTH"),
}  # fmt: skip
