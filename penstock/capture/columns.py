"""Framed rows of one table into its Arrow columns.

Most rows are whole, in the binary format, and have values that their columns can hold: all of a chunk are decoded in
one pass over its bytes. If a single one is not, the same chunk is taken apart with the care that it needs, which says
what is wrong.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import pyarrow as pa

from penstock.capture.binary_columns import from_binary, from_numbers
from penstock.capture.column_memory import taken
from penstock.capture.discover import SourceTable
from penstock.capture.fields import BINARY, TEXT, Bytes, Fields, Ints, Numbers, ValueRefused
from penstock.capture.kernels import columns as kernel
from penstock.capture.kernels.gather import is_ascii
from penstock.capture.layout import Layout
from penstock.capture.messages import malformed
from penstock.capture.text_columns import from_text
from penstock.compiled import SHORT
from penstock.errors import DecodeError, FormChanged, SourceError
from penstock.relation.schema import Column

Columns = tuple[pa.Array, ...]
_ALIGNED = 64  # bytes, as Arrow likes it
_FEW = 4096  # rows: all of them are looked at to know how long their texts are
_SAMPLE, _SPARE = 128, 4096  # of more, some; and bytes that the texts of a column may be longer


class RowRefused(Exception):
    """An error that knows its row, so that what came before it can still be delivered."""

    def __init__(self, error: SourceError, row: int) -> None:
        super().__init__(error, row)
        self.error = error
        self.row = row


def whole_columns(table: SourceTable, data: Bytes, framed: Ints, formats: Bytes | None = None) -> Columns | None:
    """The columns, unless a row is not whole, comes as text, or has a value or a NULL that its column cannot hold.

    `framed` has FIRST, END, IMAGE, OLD and COUNT of each row; `formats` are those of a COPY, whose fields do not tell.
    """
    layout, marked = table.layout, formats is None
    found = _Room.for_texts(layout, data, framed, marked, exact=len(framed) <= _FEW)
    code = found.decode(layout, data, framed, marked)
    if code == kernel.NO_ROOM:
        found = _Room.for_texts(layout, data, framed, marked, exact=True)
        code = found.decode(layout, data, framed, marked)
    strict = (index for index, column in enumerate(table.schema.columns) if not column.nullable)
    if code != kernel.DECODED or any(found.nulls[index] for index in strict):
        return None
    columns = []
    for index, kind in enumerate(layout.kinds):
        if kind == kernel.TEXT:
            column = found.texts(layout, index)
            if column is None:
                return None
        elif kind == kernel.PLACE:
            format = 0 if found.nulls[index] == len(framed) else BINARY if formats is None else int(formats[index])
            column = _column(table, index, format, found.fields(layout, index, data))
        else:
            column = _numbers(table, index, found.numbers(layout, index))
        columns.append(column)
    return tuple(columns)


class _Room:
    """Room for the values of some rows, all in one piece of memory, each column from its start on."""

    def __init__(self, layout: Layout, count: int, rooms: Ints) -> None:
        kinds = layout.kinds
        sizes = np.where(kinds == kernel.TEXT, rooms + SHORT, kinds.astype(np.int64) * count)
        ends = np.cumsum(-(-sizes // _ALIGNED) * _ALIGNED)
        self._count = count
        self._rooms = rooms
        self._starts = np.concatenate([[0], ends[:-1]])
        self._out = taken(int(ends[-1]) if len(ends) else 0)
        self._valid = np.full((len(kinds), (count + 7) // 8), 0xFF, np.uint8)
        self.nulls = np.zeros(len(kinds), np.int64)
        self._offsets, self._lengths = (np.empty((layout.places, count), np.int64) for _ in range(2))
        self._bounds = np.empty((layout.texts, count + 1), np.int32)
        self._bounds[:, 0] = 0

    @classmethod
    def for_texts(cls, layout: Layout, data: Bytes, framed: Ints, marked: bool, *, exact: bool) -> Self:
        """As much as they have, or, of many rows, as some of them let expect, unless that is far more than all have."""
        sizes, count = np.zeros(len(layout.kinds), np.int64), len(framed)
        if layout.texts and not exact:
            some = framed[:: count // _SAMPLE]
            kernel.text_sizes(data, marked, some, layout.kinds, sizes)
            everything = (framed[:, 1] - framed[:, 0]).sum()
            expected = np.minimum(sizes * count // len(some) * 5 // 4 + _SPARE, everything)
            expected[layout.kinds != kernel.TEXT] = 0
            if expected.sum() <= 2 * everything:
                return cls(layout, count, expected)
            sizes[:] = 0
        if layout.texts:
            kernel.text_sizes(data, marked, framed, layout.kinds, sizes)
        return cls(layout, count, sizes)

    def decode(self, layout: Layout, data: Bytes, framed: Ints, marked: bool) -> int:
        return int(
            kernel.values(
                data, marked, framed, layout.kinds, layout.numerics, self._starts, self._out, self._valid, self.nulls,
                self._offsets, self._lengths, self._rooms, self._bounds,
            )
        )  # fmt: skip

    def numbers(self, layout: Layout, index: int) -> Numbers:
        start, width = int(self._starts[index]), int(layout.kinds[index])
        return Numbers(_typed(self._out[start : start + self._count * width], width), self._bits(index))

    def texts(self, layout: Layout, index: int) -> pa.Array | None:
        """None if they are no UTF-8: only a SQL_ASCII database can hold such bytes."""
        bounds, start = self._bounds[layout.ordinals[index]], int(self._starts[index])
        texts = self._out[start : start + int(bounds[-1])]
        buffers = [self._bits(index), pa.py_buffer(bounds), pa.py_buffer(texts)]
        found = pa.Array.from_buffers(layout.types[index], self._count, buffers)
        if not is_ascii(texts):
            try:
                found.validate(full=True)
            except pa.ArrowInvalid:
                return None
        return found

    def fields(self, layout: Layout, index: int, data: Bytes) -> Fields:
        place = layout.ordinals[index]
        return Fields(data, self._offsets[place], self._lengths[place])

    def _bits(self, index: int) -> pa.Buffer | None:
        return pa.py_buffer(self._valid[index]) if self.nulls[index] else None


def placed_columns(table: SourceTable, data: Bytes, framed: Ints, formats: Bytes | None = None) -> tuple[Columns, Ints]:
    """The columns of any rows, and the lengths of their values, a line per column: NULL or ABSENT where none is."""
    shape = (len(table.schema.columns), len(framed))
    offsets, lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
    found = np.zeros(shape[0], np.uint8) if formats is None else formats
    key = np.array([name in table.schema.key for name in table.schema.names], np.uint8)
    row, column = kernel.places(data, formats is None, framed, key, offsets, lengths, found)
    if column >= 0:
        raise malformed(f"both formats in {table.name}.{table.schema.names[column]}")
    if row >= 0:
        raise RowRefused(malformed(f"a row of {table.name} that breaks the framing"), int(row))
    columns = tuple(
        _column(table, index, int(found[index]), Fields(data, offsets[index], lengths[index]))
        for index in range(shape[0])
    )
    return columns, lengths


def _column(table: SourceTable, index: int, format: int, fields: Fields) -> pa.Array:
    arrow = table.layout.types[index]
    try:
        if format == TEXT:
            return from_text(fields, arrow)
        if format == BINARY:
            return from_binary(fields, arrow, table.sends[index])
        return pa.nulls(len(fields), arrow)
    except ValueRefused as refused:
        raise RowRefused(_refusal(table, table.schema.columns[index], refused), refused.row) from None


def _numbers(table: SourceTable, index: int, numbers: Numbers) -> pa.Array:
    try:
        return from_numbers(numbers, table.layout.types[index], table.sends[index])
    except ValueRefused as refused:
        raise RowRefused(_refusal(table, table.schema.columns[index], refused), refused.row) from None


def _typed(values: Bytes, width: int) -> np.ndarray:
    return values.reshape(-1, width) if width == kernel.DECIMAL else values.view(f"i{width}")


def _refusal(table: SourceTable, column: Column, refused: ValueRefused) -> SourceError:
    found = (
        f"{table.name}.{column.name} ({column.pg.name}) has the value {refused.value[:200]}, "
        f"which {column.spark} cannot hold"
    )
    if refused.fits_text:
        return FormChanged(
            f"{found}: the column needs its text form",
            hint=f"Copy the table again, ps.resync(…, {table.name!r}): the copy takes the text form if such a value is "
            f'there; column_forms={{"{table.name}.{column.name}": "text"}} takes it in any case.',
            table=table.name,
            column=f"{table.name}.{column.name}",
        )
    return DecodeError(
        found,
        hint="Correct the value in the source, give the column a type that excludes it, or leave the table out.",
    )
