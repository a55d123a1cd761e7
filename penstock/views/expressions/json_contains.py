"""What a jsonb value contains: @> and <@ of a constant, ?| and ?& of names.

A constant is taken apart when the view is made: an object asks for its members, an array for elements that contain each
of its own. Numbers are equal whatever zeros they end with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.expr import BOOL, TEXT, Call, Expr, Lit, call
from penstock.views.expressions.arrays import compared
from penstock.views.expressions.binder import Binder, Handler, refuse_types, refused
from penstock.views.expressions.json import quoted
from penstock.views.expressions.json_access import JSONB, jsonb, lambda_, let, member, members, starts
from penstock.views.expressions.json_constant import constant, digits, is_constant, written
from penstock.views.expressions.sql import Sql, binary, case, chain, column, fn, is_null, pg_cast, string

# Binding --------------------------------------------------------------------------------------------------------------


def _bind_contains(binder: Binder, node: exp.Expr) -> Expr:
    sign, doc, part = "@>", node.this, node.expression
    if isinstance(node, exp.ArrayContainedBy):
        sign, doc, part = "<@", part, doc
    value = binder.bind(doc)
    if value.spark.startswith("array<"):
        return compared("array_contains", sign, value, binder.bind(part))
    if value.pg.plain.oid != JSONB.oid:
        raise refuse_types(sign, (value,)) if not is_constant(doc) else refused(node)
    asked = constant(part, sign)
    return call("json_contains", jsonb(value, sign), Lit(written(asked), JSONB, "string"), pg=BOOL)


def _bind_names(binder: Binder, node: exp.Expr) -> Expr:
    """?| and ?&: the first says or, the second and."""
    sign, op = ("?|", "or") if isinstance(node, exp.JSONBContainsAnyTopKeys) else ("?&", "and")
    doc = jsonb(binder.bind(node.this), sign)
    asked = (call("json_has", doc, Lit(name, TEXT, "string"), pg=BOOL) for name in names(node.expression, sign))
    return reduce(lambda whole, one: call(op, whole, one, pg=BOOL), asked)


def names(node: exp.Expr, sign: str) -> list[str]:
    """The texts of ARRAY['a', 'b'], or of '{a,b}', with or without ::text[]."""
    inner = node.this if isinstance(node, exp.Cast) else node
    if isinstance(inner, exp.Array) and inner.expressions:
        literals = inner.expressions
        if all(isinstance(one, exp.Literal) and one.is_string for one in literals):
            return [one.name for one in literals]
    if isinstance(inner, exp.Literal) and inner.is_string and re.fullmatch(r"\{[^\"\\{}]+\}", inner.name):
        found = [part.strip() for part in inner.name[1:-1].split(",")]
        if all(part and part.upper() != "NULL" for part in found):
            return found
    raise UnsupportedQuery(f"{sign} needs constant names", hint="Write them as ARRAY['a', 'b'].")


BIND: dict[type[exp.Expr], Handler] = {
    exp.ArrayContainsAll: _bind_contains,
    exp.ArrayContainedBy: _bind_contains,
    exp.JSONBContainsAnyTopKeys: _bind_names,
    exp.JSONBContainsAllTopKeys: _bind_names,
}

# Spark ----------------------------------------------------------------------------------------------------------------


def _spark_contains(e: Call, doc: Sql, asked: Sql) -> Sql:
    constant_ = constant(asked)

    def body(d: Sql) -> Sql:
        found = _contains(d, constant_, 0)
        if not isinstance(constant_, (dict, list)):  # at the top alone, an array contains the values that it lists
            element = fn("EXISTS", members(d.copy()), lambda_(_equals(column("e"), constant_), "e"))
            found = case((starts(d.copy(), "["), element), default=found)
        return case((is_null(d.copy()), exp.Null()), default=found)

    return let(doc, body)


def _contains(doc: Sql, asked: Any, depth: int) -> Sql:
    """Never NULL, of a value that is not."""
    if isinstance(asked, dict):
        found = [
            let(member(doc.copy(), string(quoted(key))), _containing(one, depth + 1), f"d{depth}")
            for key, one in asked.items()
        ]
        each = [fn("COALESCE", one, exp.Boolean(this=False)) for one in found]
        return chain("AND", starts(doc.copy(), "{"), *each)
    if isinstance(asked, list):
        each = [
            fn("EXISTS", members(doc.copy()), lambda_(_contains(column(f"e{depth}"), one, depth + 1), f"e{depth}"))
            for one in asked
        ]
        return chain("AND", starts(doc.copy(), "["), *each)
    return _equals(doc, asked)


def _containing(asked: Any, depth: int) -> Callable[[Sql], Sql]:
    return lambda value: _contains(value, asked, depth)


def _equals(value: Sql, asked: Any) -> Sql:
    if not isinstance(asked, Decimal):
        return binary("=", value, string(written(asked)))
    plain = digits(asked)
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    zeros = "0*" if "." in plain else "(\\.0+)?"
    return fn("REGEXP_LIKE", value, string(f"^{re.escape(plain)}{zeros}$"))


def _postgres_contains(e: Call, doc: Sql, asked: Sql) -> Sql:
    return fn("JSONB_CONTAINS", pg_cast(doc, "jsonb"), pg_cast(asked, "jsonb"))


SPARK = {"json_contains": _spark_contains}
POSTGRES = {"json_contains": _postgres_contains}
