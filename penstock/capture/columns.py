"""Framed rows of one table into its Arrow columns.

Most rows are whole, in the binary format, and have values that their columns can hold: all of a chunk are decoded in
one pass over its bytes. If a single one is not, the same chunk is taken apart with the care that it needs, which says
what is wrong.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.capture.binary_columns import from_binary, from_numbers
from penstock.capture.discover import SourceTable
from penstock.capture.fields import BINARY, TEXT, Bytes, Fields, Ints, Numbers, ValueRefused
from penstock.capture.kernels import columns as kernel
from penstock.capture.messages import malformed
from penstock.capture.text_columns import from_text
from penstock.errors import DecodeError, FormChanged, SourceError
from penstock.relation.schema import Column

Columns = tuple[pa.Array, ...]
_ALIGNED = 64  # bytes, as Arrow likes it


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
    count, columns, kinds = len(framed), table.schema.columns, table.layout.widths
    ends = np.cumsum(-(-kinds.astype(np.int64) * count // _ALIGNED) * _ALIGNED)
    starts = np.concatenate([[0], ends[:-1]])
    room = pa.allocate_buffer(int(ends[-1]) if len(ends) else 0)
    out = np.frombuffer(room, np.uint8)
    valid = np.full((len(columns), (count + 7) // 8), 0xFF, np.uint8)
    nulls = np.zeros(len(columns), np.int64)
    offsets, lengths = (np.empty((int((kinds == kernel.PLACE).sum()), count), np.int64) for _ in range(2))
    if not kernel.values(
        data, formats is None, framed, kinds, table.layout.numerics, starts, out, valid, nulls, offsets, lengths
    ) or any(null and not column.nullable for null, column in zip(nulls, columns, strict=True)):
        return None
    found, place = [], 0
    for index in range(len(columns)):
        if kinds[index] == kernel.PLACE:
            format = 0 if nulls[index] == count else BINARY if formats is None else int(formats[index])
            found.append(_column(table, index, format, Fields(data, offsets[place], lengths[place])))
            place += 1
            continue
        here = slice(int(starts[index]), int(starts[index]) + count * int(kinds[index]))
        bits = pa.py_buffer(valid[index]) if nulls[index] else None
        found.append(_numbers(table, index, Numbers(_typed(out[here], int(kinds[index])), bits)))
    return tuple(found)


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
