"""Rows of an older shape of a relation in a newer one: the same columns under their new names and types.

Columns are known by their number in the source, whatever they are called; those of views, which have none, by name. An
added column has in every older row the value that PostgreSQL shows there. The way leads forward only: what a newer
shape has dropped is not in its rows any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from penstock.relation.schema import Column, Schema
from penstock.relation.types import UTC_MICROS
from penstock.zset import ABSENT, absent_mask, absent_texts


@dataclass(frozen=True)
class Origin:
    """A column of the newer shape, and the one it is in the older shape; None where it was added since."""

    column: Column
    source: Column | None

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """Its values in rows of the older shape."""
        if self.source is not None:
            return rows[self.source.name].cast(self.column.arrow)
        older = [pa.repeat(self.column.older, rows.num_rows)] if rows.num_rows else []  # a list is not repeated 0 times
        return pa.chunked_array(older, self.column.arrow)


@dataclass(frozen=True)
class Translation:
    """From one shape to a later one of the same relation."""

    old: Schema
    new: Schema

    @cached_property
    def origins(self) -> dict[str, Origin]:
        """By name in the newer shape."""
        return {column.name: Origin(column, _same(self.old, column)) for column in self.new.columns}

    @cached_property
    def identical(self) -> frozenset[str]:
        """Columns that have the same name and form in both shapes."""
        return frozenset(
            name
            for name, one in self.origins.items()
            if one.source is not None and (one.source.name, one.source.spark) == (name, one.column.spark)
        )

    def sources(self, columns: Sequence[str]) -> list[str]:
        """The columns to read of rows in the older shape."""
        found = [self.origins[name].source for name in columns]
        return [column.name for column in found if column is not None]

    def rows(self, rows: pa.Table, columns: Sequence[str], beside: Sequence[str] = ()) -> pa.Table:
        """`columns` of the newer shape, then those `beside` the row, which have no version."""
        arrays = [self.origins[name].values(rows) for name in columns]
        return pa.table([*arrays, *(rows[name] for name in beside)], [*columns, *beside])

    def raw(self, rows: pa.Table) -> pa.Table:
        """Rows as captured: which columns the WAL left out is told by their places."""
        beside = [name for name in rows.column_names if name not in self.old.names]
        made = self.rows(rows, self.new.names, beside)
        absent = absent_mask(rows, len(self.old.columns))
        places = {column.name: place for place, column in enumerate(self.old.columns)}
        found = [one.source for one in self.origins.values()]
        moved = [
            absent[:, places[source.name]] if source is not None else np.zeros(rows.num_rows, bool) for source in found
        ]
        texts = absent_texts(np.stack(moved, axis=1)) if moved else pa.nulls(rows.num_rows, pa.string())
        return made.set_column(made.schema.get_field_index(ABSENT), ABSENT, texts)

    def keys(self, keys: pa.Table) -> pa.Table:
        """Values of columns that both shapes have, asked for in the older one."""
        found = {name: self.origins[name].source for name in keys.column_names}
        arrays = [keys[name].cast(source.arrow) for name, source in found.items() if source is not None]
        return pa.table(arrays, [source.name for source in found.values() if source is not None])

    @cached_property
    def lost(self) -> str | None:
        """What of the older rows the newer shape cannot hold."""
        for name, one in self.origins.items():
            if one.source is not None and not can_hold(one.source.arrow, one.column.arrow):
                return f"{name} is held as {one.column.spark}, was {one.source.spark}"
        return None


@lru_cache(maxsize=1024)
def translation(old: Schema, new: Schema) -> Translation:
    return Translation(old, new)


def _same(old: Schema, column: Column) -> Column | None:
    if not column.attnum:
        return next((one for one in old.columns if one.name == column.name), None)
    return next((one for one in old.columns if one.attnum == column.attnum), None)


_WIDER = {
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
    pa.timestamp("us"): (UTC_MICROS,),  # PostgreSQL keeps the values only where the time zone is UTC
    UTC_MICROS: (pa.timestamp("us"),),
}


def can_hold(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value of one form has the same value in the other.

    >>> can_hold(pa.decimal128(10, 2), pa.decimal128(12, 2)), can_hold(pa.decimal128(38, 30), pa.decimal128(38, 18))
    (True, False)
    """
    if old == new or new in _WIDER.get(old, ()):
        return True
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale)
    return False
