"""jsonb values made of others: ||, -, #-, jsonb_build_object, jsonb_build_array, to_jsonb.

What is made is written as PostgreSQL prints it: the members of an object by the length of their keys and then by bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.expr import INT4, TEXT, Call, Expr, Lit, call, kind
from penstock.views.expressions.binder import Binder, refuse_types, refused
from penstock.views.expressions.convert import convert, fix, plain
from penstock.views.expressions.json import json_value, quoted, spark_quoted
from penstock.views.expressions.json_access import (
    JSON,
    JSONB,
    jsonb,
    key_of,
    lambda_,
    let,
    members,
    path_steps,
    starts,
    value_of,
)
from penstock.views.expressions.json_constant import constant, is_constant, place, written
from penstock.views.expressions.json_contains import names
from penstock.views.expressions.sql import (
    Sql,
    binary,
    case,
    cast,
    chain,
    column,
    fn,
    is_null,
    negation,
    number,
    pg_cast,
    string,
)

# Binding --------------------------------------------------------------------------------------------------------------


def concatenated(binder: Binder, node: exp.Expr) -> Expr:
    """`a || b`, of which PostgreSQL says that it is jsonb."""
    return call("json_concat", *(_operand(binder, side) for side in (node.this, node.expression)), pg=JSONB)


def without(binder: Binder, node: exp.Expr) -> Expr:
    """`j - key`, `j - place` or `j - keys`."""
    doc, gone = jsonb(binder.bind(node.this), "-"), node.expression
    if isinstance(gone, exp.Array) or (isinstance(gone, exp.Cast) and gone.to.is_type(exp.DType.ARRAY)):
        for name in names(gone, "- of jsonb"):
            doc = call("json_without", doc, Lit(name, TEXT, "string"), pg=JSONB)
        return doc
    key = plain(fix(binder.bind(gone), TEXT))
    if kind(key.pg) == "text":
        return call("json_without", doc, key, pg=JSONB)
    if kind(key.pg) == "int" and key.spark != "bigint":
        return call("json_without_at", doc, convert(key, INT4, "int"), pg=JSONB)
    raise refuse_types("-", (doc, key))


def _without_path(binder: Binder, node: exp.Expr) -> Expr:
    """`j #- '{a,0}'`"""
    doc, steps = jsonb(binder.bind(node.this), "#-"), path_steps(node.expression, "#-")
    return call("json_without_path", doc, pg=JSONB, detail=",".join(steps)) if steps else doc


def _operand(binder: Binder, node: exp.Expr) -> Expr:
    if is_constant(node):
        return Lit(written(constant(node)), JSONB, "string")
    return jsonb(binder.bind(node), "||")


def _build_object(binder: Binder, node: exp.Expr) -> Expr:
    keys, values = node.expressions[::2], node.expressions[1::2]
    if len(keys) != len(values):
        raise UnsupportedQuery("jsonb_build_object() needs a value for each key", hint="PostgreSQL refuses it too.")
    if not all(isinstance(key, exp.Literal) and key.is_string for key in keys):
        raise UnsupportedQuery("jsonb_build_object() needs constant keys", hint="Write them as literals.")
    found = {key.name: _value(binder, value) for key, value in zip(keys, values, strict=True)}
    ordered = sorted(found, key=place)
    parts = [part for key in ordered for part in (Lit(quoted(key) + ": ", TEXT, "string"), found[key])]
    return call("json_build", *parts, pg=JSONB, detail="{}")


def _build_array(binder: Binder, node: exp.Expr) -> Expr:
    parts = [part for value in node.expressions for part in (Lit("", TEXT, "string"), _value(binder, value))]
    return call("json_build", *parts, pg=JSONB, detail="[]")


def _json_object(binder: Binder, node: exp.Expr) -> Expr:
    """json_build_object(): in the order in which it is written, {"a" : 1}."""
    keys, values = node.expressions[::2], node.expressions[1::2]
    if len(keys) != len(values) or not all(isinstance(key, exp.Literal) and key.is_string for key in keys):
        raise UnsupportedQuery("json_build_object() needs constant keys", hint="Write them as literals.")
    parts = [
        part
        for key, value in zip(keys, values, strict=True)
        for part in (Lit(quoted(key.name) + " : ", TEXT, "string"), _value(binder, value, binary=False))
    ]
    return call("json_build", *parts, pg=JSON, spark="string", detail="{}")


def _json_array(binder: Binder, node: exp.Expr) -> Expr:
    parts = [
        part for value in node.expressions for part in (Lit("", TEXT, "string"), _value(binder, value, binary=False))
    ]
    return call("json_build", *parts, pg=JSON, spark="string", detail="[]")


def _to_jsonb(binder: Binder, node: exp.Expr) -> Expr:
    if len(node.expressions) != 1:
        raise refused(node)
    return call("to_jsonb", _value(binder, node.expressions[0]), plain(binder.bind(node.expressions[0])), pg=JSONB)


def _value(binder: Binder, node: exp.Expr, *, binary: bool = True) -> Expr:
    return json_value(plain(fix(binder.bind(node), TEXT)), binary=binary)


NAMED: dict[str, Callable[[Binder, exp.Expr], Expr]] = {
    "jsonb_build_object": _build_object,
    "jsonb_build_array": _build_array,
    "json_build_object": _json_object,
    "json_build_array": _json_array,
    "to_jsonb": _to_jsonb,
}

# Spark ----------------------------------------------------------------------------------------------------------------


def object_of(found: Sql) -> Sql:
    """An object of members, of which the last of those with one key counts."""
    entry = fn(
        "NAMED_STRUCT", string("n"), fn("OCTET_LENGTH", key_of(column("m"))), string("k"), key_of(column("m")),
        string("i"), column("i"), string("m"), column("m"),
    )  # fmt: skip
    ordered = fn("SORT_ARRAY", fn("TRANSFORM", found, lambda_(entry, "m", "i")))

    def body(entries: Sql) -> Sql:
        following = exp.Dot(
            this=fn("GET", entries, binary("+", column("p"), number("1"))), expression=exp.to_identifier("k")
        )
        last = fn("FILTER", entries.copy(), lambda_(negation(binary("<=>", column("k", "x"), following)), "x", "p"))
        return _list(fn("TRANSFORM", last, lambda_(column("m", "x"), "x")), "{", "}")

    return let(ordered, body, "s")


def _list(parts: Sql, start: str, end: str) -> Sql:
    return fn("CONCAT", string(start), fn("ARRAY_JOIN", parts, string(", ")), string(end))


def _spark_concat(e: Call, left: Sql, right: Sql) -> Sql:
    def elements(value: Sql) -> Sql:
        return case((starts(value, "["), members(value.copy())), default=fn("ARRAY", value.copy()))

    def body(a: Sql, b: Sql) -> Sql:
        objects = chain("AND", starts(a, "{"), starts(b, "{"))
        merged = object_of(fn("CONCAT", members(a.copy()), members(b.copy())))
        joined = _list(fn("CONCAT", elements(a.copy()), elements(b.copy())), "[", "]")
        unknown = chain("OR", is_null(a.copy()), is_null(b.copy()))
        return case((unknown, exp.Null()), (objects, merged), default=joined)

    return let(left, lambda a: let(right, lambda b: body(a, b), "b"), "a")


def _spark_without(e: Call, doc: Sql, key: Sql) -> Sql:
    quoted_ = spark_quoted(key)
    start = fn("CONCAT", quoted_, string(": "))

    def body(d: Sql) -> Sql:
        named = fn("FILTER", members(d.copy()), lambda_(negation(fn("STARTSWITH", column("m"), start)), "m"))
        others = fn("FILTER", members(d.copy()), lambda_(negation(binary("=", column("m"), quoted_.copy())), "m"))
        return case(
            (chain("OR", is_null(d), is_null(quoted_.copy())), exp.Null()),
            (starts(d.copy(), "{"), _list(named, "{", "}")),
            (starts(d.copy(), "["), _list(others, "[", "]")),
            default=_refusal("cannot delete from scalar"),
        )

    return let(doc, body)


def _spark_without_at(e: Call, doc: Sql, at: Sql) -> Sql:
    def kept(found: Sql) -> Sql:
        behind = binary("+", fn("SIZE", found.copy()), at.copy())
        gone = case((binary("<", at.copy(), number("0")), behind), default=at.copy())
        return _list(fn("FILTER", found, lambda_(binary("<>", column("i"), gone), "m", "i")), "[", "]")

    def body(d: Sql) -> Sql:
        return case(
            (chain("OR", is_null(d), is_null(at.copy())), exp.Null()),
            (starts(d.copy(), "["), let(members(d.copy()), kept, "s")),
            default=_refusal("cannot delete from object or scalar using integer index"),
        )

    return let(doc, body)


def _spark_without_path(e: Call, doc: Sql) -> Sql:
    def body(d: Sql) -> Sql:
        scalar = negation(chain("OR", starts(d.copy(), "{"), starts(d.copy(), "[")))
        return case(
            (is_null(d), exp.Null()),
            (scalar, _refusal("cannot delete path in scalar")),
            (binary("=", d.copy(), string("[]")), d.copy()),
            default=_cut(d.copy(), e.detail.split(","), 0),
        )

    return let(doc, body)


def _cut(doc: Sql, steps: list[str], depth: int) -> Sql:
    """The value without what the path leads to; itself where it leads nowhere."""
    step, rest = steps[0], steps[1:]
    member, start = column(f"m{depth}"), string(quoted(step) + ": ")
    here = fn("STARTSWITH", member, start)
    if rest:
        inner = fn("CONCAT", start.copy(), _cut(value_of(member.copy()), rest, depth + 1))
        named = fn("TRANSFORM", members(doc.copy()), lambda_(case((here, inner), default=member.copy()), f"m{depth}"))
    else:
        named = fn("FILTER", members(doc.copy()), lambda_(negation(here), f"m{depth}"))
    if re.fullmatch(r"[+-]?\d{1,9}", step):
        listed = let(members(doc.copy()), lambda found: _cut_at(found, int(step), rest, depth), f"s{depth}")
    else:
        listed = _refusal(f"path element at position {depth + 1} is not an integer")
    return case(
        (starts(doc.copy(), "{"), _list(named, "{", "}")), (starts(doc.copy(), "["), listed), default=doc.copy()
    )  # fmt: skip


def _cut_at(found: Sql, at: int, rest: list[str], depth: int) -> Sql:
    place = number(str(at)) if at >= 0 else binary("+", fn("SIZE", found.copy()), number(str(at)))
    element, here = column(f"m{depth}"), binary("=", column(f"i{depth}"), place)
    if rest:
        changed = case((here, _cut(element, rest, depth + 1)), default=element.copy())
        return _list(fn("TRANSFORM", found, lambda_(changed, f"m{depth}", f"i{depth}")), "[", "]")
    return _list(fn("FILTER", found, lambda_(negation(here), f"m{depth}", f"i{depth}")), "[", "]")


def _refusal(text: str) -> Sql:
    return cast(fn("RAISE_ERROR", string(text)), "string")


def _build(e: Call, *parts: Sql) -> Sql:
    """Keys, with their colons, and values in turns."""
    pieces: list[Sql] = [string(e.detail[0])]
    for at in range(0, len(parts), 2):
        pieces += [string(", ")] if at else []
        pieces += parts[at : at + 2]
    return fn("CONCAT", *pieces, string(e.detail[1]))


def _unless_null(made: Callable[[Sql], Sql]) -> Callable[..., Sql]:
    return lambda e, value, given: case((is_null(given), exp.Null()), default=made(value))


def _postgres_without(e: Call, doc: Sql, key: Sql) -> Sql:
    by = "text" if e.op == "json_without" else "int"
    return fn("JSONB_DELETE", pg_cast(doc, "jsonb"), pg_cast(key, by))


BIND: dict[type[exp.Expr], Callable[[Binder, exp.Expr], Expr]] = {exp.JSONBDeleteAtPath: _without_path}
SPARK = {
    "json_concat": _spark_concat, "json_without": _spark_without, "json_without_at": _spark_without_at,
    "json_without_path": _spark_without_path, "json_build": _build, "to_jsonb": _unless_null(lambda value: value),
}  # fmt: skip
POSTGRES = {
    "json_concat": lambda e, a, b: fn("JSONB_CONCAT", pg_cast(a, "jsonb"), pg_cast(b, "jsonb")),
    "json_without": _postgres_without,
    "json_without_path": lambda e, doc: fn(
        "JSONB_DELETE_PATH", pg_cast(doc, "jsonb"), pg_cast(string(f"{{{e.detail}}}"), "text[]")
    ),
    "json_without_at": _postgres_without,
    "json_build": lambda e, *parts: pg_cast(_build(e, *parts), "jsonb" if e.pg == JSONB else "text"),
    "to_jsonb": _unless_null(lambda value: pg_cast(value, "jsonb")),
}
