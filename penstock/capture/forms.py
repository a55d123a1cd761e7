"""Which form each column takes: its type's native one where every value that exists fits, else the text form.

Only columns whose type has values that its native form cannot hold are looked at, all of a table in one query. Values
may change between the look and the copy: the copy then stops with FormChanged, and the next look sees them. A source
that goes on keeps the forms it recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from psycopg import sql

from penstock.capture.connection import Connection, translated
from penstock.capture.discover import SourceTable
from penstock.errors import ConfigError
from penstock.relation.schema import Column
from penstock.relation.types import UNCONSTRAINED_NUMERIC, list_of

_DIGITS = 38
_NO_MIN_SCALE = 130000  # before it, trailing zeros count as digits

# The years that Arrow's readers and Spark agree on. Both infinities lie outside.
_TIMES = {
    1082: "min({0}) >= '0001-01-01'::date AND max({0}) <= '9999-12-31'::date",
    1114: "min({0}) >= '0001-01-01'::timestamp AND max({0}) < '10000-01-01'::timestamp",
    1184: "min({0}) >= '0001-01-01 00:00:00+00'::timestamptz AND max({0}) < '10000-01-01 00:00:00+00'::timestamptz",
}
_ONE_LIST = "bool_and(array_ndims({0}) = 1 AND array_lower({0}, 1) = 1)"


@dataclass(frozen=True)
class _Look:
    """What to ask about one column, and the form that the answers call for."""

    column: Column
    asked: tuple[sql.Composed, ...]
    form: Callable[[Sequence[Any]], pa.DataType]


def choose_forms(
    connection: Connection,
    tables: Mapping[str, SourceTable],
    overrides: Mapping[str, str] | None = None,
    *,
    look: bool = True,
) -> dict[str, SourceTable]:
    """The tables with the form of every column. `overrides` maps `schema.table.column` to `text` or `native`.

    Without `look` (a source that copies nothing) the values that exist do not matter.
    """
    given = dict(overrides or {})
    _check(given, tables)
    version = connection.info.server_version
    chosen = {}
    for name, table in tables.items():
        columns = [_given(column, given.get(f"{name}.{column.name}")) for column in table.schema.columns]
        open_to = [column for column in columns if look and f"{name}.{column.name}" not in given]
        looks = [found for column in open_to if (found := _look(column, version)) is not None]
        forms = _answers(connection, table, looks) if looks else {}
        columns = [column.with_form(forms.get(column.name, column.arrow)) for column in columns]
        chosen[name] = replace(table, schema=replace(table.schema, columns=tuple(columns)))
    return chosen


def _check(given: Mapping[str, str], tables: Mapping[str, SourceTable]) -> None:
    known = {f"{name}.{column}" for name, table in tables.items() for column in table.schema.names}
    for name in given:
        if name not in known and any(name.startswith(f"{table}.") for table in tables):
            raise ConfigError(f"column_forms names {name}, which is no column", hint="Write schema.table.column.")


def _given(column: Column, form: str | None) -> Column:
    return column.with_form(pa.string()) if form == "text" else column


def _answers(connection: Connection, table: SourceTable, looks: Sequence[_Look]) -> dict[str, pa.DataType]:
    asked = [part for look in looks for part in look.asked]
    query = sql.SQL("SELECT {} FROM {}").format(
        sql.SQL(", ").join(asked), sql.Identifier(table.schema_name, table.table_name)
    )
    with translated():
        row = connection.execute(query).fetchone()
    assert row is not None
    answers = list(row)
    return {look.column.name: look.form([answers.pop(0) for _ in look.asked]) for look in looks}


def _look(column: Column, version: int) -> _Look | None:
    """What must be asked; None where every value fits, or where the form is text already."""
    native = column.arrow
    name = sql.Identifier(column.name)
    if not pa.types.is_list(native):
        return _scalar_look(column, native, version, lambda aggregate: sql.SQL(aggregate).format(name))
    one_list = sql.SQL(_ONE_LIST).format(name)

    def inside(aggregate: str) -> sql.Composed:
        """An aggregate over the elements of each array, aggregated again over the arrays."""
        outer = "bool_and" if " AND " in aggregate else aggregate.partition("(")[0]
        inner = sql.SQL(aggregate).format(sql.Identifier("x"))
        return sql.SQL("{}((SELECT {} FROM unnest({}) AS u(x)))").format(sql.SQL(outer), inner, name)

    assert column.pg.plain.element is not None
    element = replace(column, pg=column.pg.plain.element)
    elements = _scalar_look(element, native.value_type, version, inside)

    def form(answers: Sequence[Any]) -> pa.DataType:
        inner = elements.form(answers[1:]) if elements else native.value_type
        lost = elements is not None and inner == pa.string()
        return pa.string() if answers[0] is False or lost else list_of(inner)

    return _Look(column, (one_list, *(elements.asked if elements else ())), form)


def _scalar_look(
    column: Column, native: pa.DataType, version: int, over: Callable[[str], sql.Composed]
) -> _Look | None:
    oid = column.pg.plain.oid
    if pa.types.is_decimal(native):
        scale = "max(min_scale({0}))" if version >= _NO_MIN_SCALE else "max(scale({0}))"
        most, least = (_as_text(over(f"{extreme}({{0}})")) for extreme in ("max", "min"))
        if column.pg.plain.decimal is not None:  # its digits fit; NaN, the greatest, may still be among them
            return _Look(column, (most,), lambda answers: native if _finite(answers) else pa.string())
        return _Look(column, (most, least, over(scale)), _numeric_form)
    if oid in _TIMES and native != pa.string():
        return _Look(column, (over(_TIMES[oid]),), lambda answers: pa.string() if answers[0] is False else native)
    return None


def _as_text(value: sql.Composed) -> sql.Composed:
    return sql.SQL("{}::text").format(value)


def _finite(extremes: Sequence[Any]) -> bool:
    return not any(text and text.lstrip("-")[0].isalpha() for text in extremes)


def _numeric_form(answers: Sequence[Any]) -> pa.DataType:
    """decimal(38, s) with room on both sides of the digits that exist, or text.

    >>> _numeric_form(["12.50", "-3", 2]), _numeric_form(["1" * 25, "0", 3]), _numeric_form(["NaN", "1", 0])
    (Decimal128Type(decimal128(38, 18)), Decimal128Type(decimal128(38, 8)), DataType(string))
    """
    *extremes, scale = answers
    if not _finite(extremes):
        return pa.string()
    whole = max((len(text.lstrip("-").partition(".")[0].lstrip("0")) for text in extremes if text), default=0)
    after = scale or 0
    if whole <= _DIGITS - UNCONSTRAINED_NUMERIC.scale and after <= UNCONSTRAINED_NUMERIC.scale:
        return UNCONSTRAINED_NUMERIC
    spare = _DIGITS - whole - after
    return pa.decimal128(_DIGITS, after + spare // 2) if spare >= 0 else pa.string()
