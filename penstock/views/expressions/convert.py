"""Operands meet in one type: an explicit conversion that both engines make alike, or a refusal.

Literals in quotes take the type of what they stand beside, as in PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from penstock.errors import UnsupportedQuery
from penstock.relation.types import FIRST_USER_OID, PgType, spark_type
from penstock.views import decimals
from penstock.views.expr import DATE, FLOAT8, INT8, NUMERIC, TEXT, TIMESTAMP, TIMESTAMPTZ, Expr, Lit, call, kind
from penstock.views.expressions.binder import numeric_literal, refuse_types

_INT_RANK = {21: 0, 23: 1, 20: 2}
_TIME_RANK = {"date": 0, "timestamp": 1, "timestamptz": 2}
_TEXTUAL = ("text", "char")
_ISO_DATE = r"\d{4}-\d\d-\d\d"
_ISO_TIME = r"[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_FORMS = {
    "date": re.compile(_ISO_DATE),
    "timestamp": re.compile(f"{_ISO_DATE}({_ISO_TIME})?"),
    "timestamptz": re.compile(f"{_ISO_DATE}({_ISO_TIME})?(Z|[+-]\\d\\d(:?\\d\\d)?)?"),
    "int": re.compile(r"[+-]?\d+"),
    "numeric": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)"),
    "float": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|-?Infinity"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
}
_TRUE, _FALSE = frozenset({"t", "true", "yes", "on", "1"}), frozenset({"f", "false", "no", "off", "0"})


def typed(literal: Lit, pg: PgType) -> Lit:
    """A quoted literal, or NULL, as a constant of a type."""
    spark = spark_type(pg.arrow)
    value = literal.value
    if value is None or kind(pg) == "text" or (kind(pg) == "opaque" and pg.oid >= FIRST_USER_OID):
        return Lit(value, pg, spark)  # an enum's literal is its label
    form, text = kind(pg), value.strip()
    if form == "char":
        return Lit(value.rstrip(" "), TEXT, "string")
    if form == "bool" and text.lower() in _TRUE | _FALSE:
        return Lit("true" if text.lower() in _TRUE else "false", pg, spark)
    if form in _FORMS and _FORMS[form].fullmatch(text):
        if form == "numeric":
            return replace(numeric_literal(text), pg=pg)
        return Lit(text.lower() if form == "uuid" else text.replace("T", " "), pg, spark)
    raise UnsupportedQuery(
        f"the literal '{value}' of type {pg.name} is not in a form that a view can hold",
        hint="Write dates and times in ISO form (2026-01-31 12:00:00), numbers and booleans plainly. What is held as "
        "text has no literals, since PostgreSQL may spell the value in another way.",
    )


def fix(arg: Expr, pg: PgType) -> Expr:
    return typed(arg, pg) if isinstance(arg, Lit) and arg.bare else arg


def plain(arg: Expr) -> Expr:
    """An operand on its own: a bare literal is text, a char(n) loses its padding as PostgreSQL's cast to text does."""
    if isinstance(arg, Lit) and arg.bare:
        return typed(arg, TEXT)
    if kind(arg.pg) == "char":
        return call("rtrim_blanks", arg, pg=TEXT)
    return arg


def common(args: Sequence[Expr], what: str, pg: PgType | None = None) -> tuple[Expr, ...]:
    """The operands as values of one type: PostgreSQL's `pg` where it told, else the type it would compare in."""
    known = [arg for arg in args if not (isinstance(arg, Lit) and arg.bare)]
    target = pg or (_meet([arg.pg for arg in known], what, known) if known else TEXT)
    if kind(target) == "char" and pg is not None:
        raise refuse_types(what, args)
    fixed = [plain(fix(arg, target)) for arg in args]
    if kind(target) != "opaque" and any(kind(arg.pg) == "opaque" for arg in fixed):
        raise refuse_types(what, args)  # PostgreSQL computes with the value, we have its text
    if kind(target) == "numeric":
        if any(kind(arg.pg) not in ("int", "numeric") for arg in fixed):
            raise refuse_types(what, args)
        shape = decimals.decimal_of(fixed[0].spark)
        for arg in fixed[1:]:
            shape = decimals.wider(shape, decimals.decimal_of(arg.spark))
        return tuple(convert(arg, replace_type(target), decimals.name(shape)) for arg in fixed)
    return tuple(convert(arg, target, spark_type(target.arrow)) for arg in fixed)


def replace_type(pg: PgType) -> PgType:
    return NUMERIC if pg.oid == NUMERIC.oid else pg


def _meet(types: Sequence[PgType], what: str, args: Sequence[Expr]) -> PgType:
    kinds = {kind(pg) for pg in types}
    if kinds <= {"int"}:
        return max(types, key=lambda pg: _INT_RANK[pg.oid])
    if kinds <= {"int", "numeric"}:
        return NUMERIC
    if kinds <= {"int", "numeric", "float"}:
        return types[0] if len(kinds) == 1 and len({pg.oid for pg in types}) == 1 else FLOAT8
    if kinds <= {"text", "char"}:
        return TEXT
    if kinds <= set(_TIME_RANK):
        return (DATE, TIMESTAMP, TIMESTAMPTZ)[max(_TIME_RANK[found] for found in kinds)]
    if kinds == {"oid"} or kinds == {"oid", "int"}:
        return INT8
    if len(kinds) == 1 and len({pg.oid for pg in types}) == 1:
        return types[0]
    raise refuse_types(what, args)


def convert(arg: Expr, pg: PgType, spark: str) -> Expr:
    """A conversion without loss that the types alone call for; nothing where Spark's type is the same already."""
    if arg.spark == spark:
        return arg
    if kind(arg.pg) == "opaque":
        raise refuse_types("a conversion", (arg,))
    if isinstance(arg, Lit) and kind(pg) == "numeric" and arg.value is not None:
        return Lit(format(Decimal(arg.value), "f"), pg, spark)
    return call("convert", arg, pg=pg, spark=spark)
