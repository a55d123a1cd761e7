"""Constants of jsonb, written as PostgreSQL prints them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.expressions.json import quoted


def constant(node: exp.Expr, what: str = "JSON") -> Any:
    """What a literal, with or without ::jsonb, says; numbers are Decimals. None of JSON is `null`'s."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.to.is_type("jsonb"):
        node = node.this
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise UnsupportedQuery(
            f"{what} of `{node.sql(dialect='postgres')}`, which is not a constant, is not supported in a view",
            hint="Write the JSON there as a literal.",
        )
    try:
        return json.loads(node.name, parse_float=Decimal, parse_int=Decimal, parse_constant=_no_number)
    except ValueError as error:
        raise UnsupportedQuery(f"'{node.name}' is no JSON: {error}", hint="Write a JSON value.") from error


def is_constant(node: exp.Expr) -> bool:
    inner = node.this if isinstance(node, exp.Cast) and node.to.is_type("jsonb") else node
    return isinstance(inner, exp.Literal) and inner.is_string


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def written(value: Any) -> str:
    """As PostgreSQL prints it: keys by length and then by bytes, the last of equal ones, numbers with their digits.

    >>> written(json.loads('{"bb": [1.50, -0, 1e3], "a": null, "c": "é"}', parse_float=Decimal, parse_int=Decimal))
    '{"a": null, "c": "é", "bb": [1.50, 0, 1000]}'
    """
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda pair: place(pair[0]))
        return "{" + ", ".join(f"{quoted(key)}: {written(one)}" for key, one in members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Decimal):
        return digits(value)
    return {None: "null", True: "true", False: "false"}[value]


def place(key: str) -> tuple[int, bytes]:
    """Where a key stands in an object."""
    return len(key.encode()), key.encode()


def digits(value: Decimal) -> str:
    return format(abs(value) if value == 0 else value, "f")
