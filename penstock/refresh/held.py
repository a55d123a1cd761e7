"""A source's column as PostgreSQL shows it in the form in which it is held here, so that both can be compared."""

from __future__ import annotations

import pyarrow as pa
from psycopg import sql

from penstock.relation.schema import Column
from penstock.relation.types import INTERVAL, POINT, PgType

# Text is asked for from the type's output function: a cast to text differs for inet, char(n) and boolean.
_TEXT = "CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END"
# PostgreSQL's own three fields: interval_send gives microseconds, days and months, the only exact look at them.
_MONTHS, _DAYS = (
    f"('x' || encode(substr(interval_send({{0}}), {at}, 4), 'hex'))::bit(32)::int::int8" for at in (13, 9)
)
_MICROS = "('x' || encode(substr(interval_send({0}), 1, 8), 'hex'))::bit(64)::int8"
_INTERVAL = f"CASE WHEN {{0}} IS NOT NULL THEN ARRAY[{_MONTHS}, {_DAYS}, {_MICROS}] END"
_POINT = "CASE WHEN {0} IS NOT NULL THEN ARRAY[({0})[0], ({0})[1]] END"
_LIST = "CASE WHEN {0} IS NOT NULL THEN ARRAY(SELECT {1} FROM generate_subscripts({0}, 1) AS i ORDER BY i) END"


def as_held(column: Column) -> sql.Composed:
    """A struct comes as a list of its fields, a list of lists as PostgreSQL's array of as many dimensions."""
    name = sql.Composed([sql.Identifier(column.name)])
    held = column.arrow
    if pa.types.is_list(held) and held.value_type in (pa.string(), INTERVAL, POINT):
        element = _held(sql.SQL("{}[i]").format(name), held.value_type)
        return sql.SQL(_LIST).format(name, element)
    if pa.types.is_list(held) and (base := _base_of_elements(column)) is not None:
        return sql.SQL(_LIST).format(name, sql.SQL(f"{{}}[i]::{base.name}").format(name))
    return _held(name, held) if held != pa.string() or not _is_text(column) else name


def text_as_held(column: Column) -> sql.Composed:
    """The text of a column that holds one, as a text: char(n) keeps its padding."""
    name = sql.Composed([sql.Identifier(column.name)])
    plain = column.pg.plain.oid in (25, 1043) and not column.pg.in_text_form
    return name if plain else _held(name, pa.string())


def element_as_held(column: Column, element: sql.Composed) -> sql.Composed:
    """An element of a column that holds lists: text where it is held as one, else a value of a type without domains."""
    if column.arrow.value_type == pa.string():
        return _held(element, pa.string())
    base = _base_of_elements(column)
    return element if base is None else sql.SQL(f"{{}}::{base.name}").format(element)


def _base_of_elements(column: Column) -> PgType | None:
    """The base of an array's domain, by the server's own spelling: clients do not know an array of a domain."""
    element = column.pg.plain.element
    return None if element is None else element.base


def _held(value: sql.Composed, held: pa.DataType) -> sql.Composed:
    form = {pa.string(): _TEXT, INTERVAL: _INTERVAL, POINT: _POINT}.get(held)
    return value if form is None else sql.SQL(form).format(value)


def _is_text(column: Column) -> bool:
    """Whether PostgreSQL's own value is a text already."""
    return column.pg.plain.oid in (19, 25, 1042, 1043) and not column.pg.in_text_form
