"""Which form each column takes: its type's native one where every value that exists fits, else one that holds them.

A table is copied in native forms. The first value that does not fit ends its copy with FormChanged; then all values are
looked at, in one query, and the copy starts again with forms that hold them. Only columns whose type has values that
its native form cannot hold are looked at. Values may change between the look and the copy: the next FormChanged, and
the next look, sees them. A source that goes on keeps the forms it recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from psycopg import sql

from penstock.capture.connection import Connection, translated
from penstock.capture.discover import SourceTable, in_key
from penstock.errors import ConfigError
from penstock.relation.schema import Column
from penstock.relation.types import UNCONSTRAINED_NUMERIC, arrow_type, list_of

Forms = Mapping[str, tuple[int, str]]  # by schema.table.column: the OID of its type, and how Spark calls its form

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


def native_forms(
    tables: Mapping[str, SourceTable], overrides: Mapping[str, str] | None = None
) -> dict[str, SourceTable]:
    """The tables in native forms. `overrides` maps `schema.table.column` to `text` or `native`."""
    given = dict(overrides or {})
    _check(given, tables)
    return {
        name: _in_forms(table, {c.name: pa.string() for c in table.schema.columns if _asked(table, c, given) == "text"})
        for name, table in tables.items()
    }


def looked_at(
    connection: Connection, tables: Mapping[str, SourceTable], overrides: Mapping[str, str] | None = None
) -> dict[str, SourceTable]:
    """The tables in forms that hold all values that the connection sees, except where `overrides` say otherwise."""
    given, version = dict(overrides or {}), connection.info.server_version
    chosen = native_forms(tables, given)
    for name, table in chosen.items():
        open_to = [column for column in table.schema.columns if _asked(table, column, given) is None]
        looks = [found for column in open_to if (found := _look(column, version)) is not None]
        if looks:
            chosen[name] = _in_forms(table, _answers(connection, table, looks))
    return chosen


def looked_at_again(connection: Connection, table: SourceTable, overrides: Mapping[str, str]) -> SourceTable:
    """A table of which a value did not fit, in forms that do; the same table if `overrides` leave no other form."""
    native = replace(
        table, schema=replace(table.schema, columns=tuple(_native(table, c) for c in table.schema.columns))
    )
    return looked_at(connection, {table.name: native}, overrides)[table.name]


def other_forms(tables: Iterable[SourceTable]) -> Forms:
    """The columns that are not in their native form, to be recorded with a position."""
    return {
        f"{table.name}.{column.name}": (column.pg.oid, column.spark)
        for table in tables
        for column in table.schema.columns
        if column.spark != _native(table, column).spark
    }


def in_recorded_forms(tables: Mapping[str, SourceTable], recorded: Forms) -> dict[str, SourceTable]:
    """The tables, held as `other_forms` said of them; a column that has another type since is not what was recorded."""
    chosen = {}
    for name, table in tables.items():
        found = {column.name: recorded.get(f"{name}.{column.name}") for column in table.schema.columns}
        types = {column.name: column.pg.oid for column in table.schema.columns}
        forms = {c: arrow_type(one[1]) for c, one in found.items() if one is not None and one[0] == types[c]}
        chosen[name] = _in_forms(table, forms)
    return chosen


def _in_forms(table: SourceTable, forms: Mapping[str, pa.DataType]) -> SourceTable:
    columns = tuple(column.with_form(forms.get(column.name, column.arrow)) for column in table.schema.columns)
    return replace(table, schema=replace(table.schema, columns=columns))


def _native(table: SourceTable, column: Column) -> Column:
    return in_key(column.with_form(column.pg.arrow), table.schema.key)


def _asked(table: SourceTable, column: Column, given: Mapping[str, str]) -> str | None:
    return given.get(f"{table.name}.{column.name}")


def _check(given: Mapping[str, str], tables: Mapping[str, SourceTable]) -> None:
    known = {f"{name}.{column}" for name, table in tables.items() for column in table.schema.names}
    for name in given:
        if name not in known and any(name.startswith(f"{table}.") for table in tables):
            raise ConfigError(f"column_forms names {name}, which is no column", hint="Write schema.table.column.")


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
