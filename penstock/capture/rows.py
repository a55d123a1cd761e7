"""Framed rows of one table into Arrow: its columns, then what a change knows beside them, except its commit.

The commit's LSN, time and transaction are stamped when the batch is cut, because a row may be read before its Commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.columns import RowRefused, placed_columns, whole_columns
from penstock.capture.discover import SourceTable
from penstock.capture.fields import Bytes, Ints
from penstock.capture.kernels import frames
from penstock.capture.kernels.columns import ABSENT, NULL
from penstock.capture.messages import malformed
from penstock.capture.relations import may_be_null, schema_changed
from penstock.errors import BecameNullable, DecodeError


@dataclass(frozen=True)
class Rows:
    """Rows of one table in order: `columns` its values, the rest a line per row."""

    columns: tuple[pa.Array, ...]
    weights: Ints
    ops: Ints
    seqs: Ints
    absent: pa.Array

    @cached_property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in (*self.columns, self.absent)) + 24 * len(self.seqs)


def row_sizes(rows: Rows) -> Ints:
    """About how many bytes each row has of `Rows.nbytes`: texts by their lengths, the rest by its share.

    >>> few = pa.array(["", None, "x" * 100])
    >>> zeros = np.zeros(3, np.int64)
    >>> row_sizes(Rows((few,), zeros, zeros, zeros, pa.nulls(3, pa.string()))).tolist()
    [33, 33, 133]
    """
    count = len(rows.seqs)
    sizes = np.zeros(count, np.int64)
    shared = rows.nbytes
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
            sizes += lengths
            shared -= int(lengths.sum())
    return np.asarray(sizes + -(-max(shared, 0) // max(count, 1)))


def wal_rows(table: SourceTable, data: Bytes, rows: Ints) -> Rows:
    """The rows of one table that `scan_wal` framed."""
    framed = rows[:, frames.FIRST : frames.COUNT + 1]
    columns = whole_columns(table, data, framed)
    absent = pa.nulls(len(rows), pa.string())
    if columns is None:
        valued = rows[:, frames.FIRST] >= 0
        if (rows[valued, frames.COUNT] != len(table.schema.columns)).any():
            raise malformed(f"a row of {table.name} with another number of columns")
        columns, lengths = placed_columns(table, data, framed)
        _refuse_nulls(table, lengths, valued)
        _refuse_cut_inserts(table, lengths, rows[:, frames.OP] == ord("I"))
        absent = _absent(lengths)
    return Rows(
        columns,
        rows[:, frames.WEIGHT].copy(),  # a view would keep all of `rows` alive
        rows[:, frames.OP].copy(),
        rows[:, frames.SEQ].copy(),
        absent,
    )


def copied_rows(table: SourceTable, data: Bytes, framed: Ints, formats: Bytes, first_seq: int) -> Rows:
    """The rows of one table that `scan_copy` framed."""
    count = len(framed)
    try:
        columns = whole_columns(table, data, framed, formats) or placed_columns(table, data, framed, formats)[0]
    except RowRefused as refused:
        raise refused.error from None
    return Rows(
        columns,
        np.ones(count, np.int64),
        np.full(count, ord("R"), np.int64),
        np.arange(first_seq, first_seq + count, dtype=np.int64),
        pa.nulls(count, pa.string()),
    )


def truncated_rows(table: SourceTable) -> Rows:
    """One TRUNCATE of a table: a row without values."""
    columns = tuple(pa.nulls(1, column.arrow) for column in table.schema.columns)
    nothing = np.zeros(1, np.int64)
    return Rows(columns, nothing, np.full(1, ord("T"), np.int64), nothing, pa.nulls(1, pa.string()))


def _refuse_nulls(table: SourceTable, lengths: Ints, valued: npt.NDArray[np.bool_]) -> None:
    """Views rely on NOT NULL, and the WAL does not say when it is dropped: the first NULL does."""
    strict = [index for index, column in enumerate(table.schema.columns) if not column.nullable]
    nulls = (lengths[strict] == NULL) & valued
    if nulls.any():
        row = int(nulls.any(axis=0).argmax())
        column = table.schema.names[strict[int(nulls[:, row].argmax())]]
        said = schema_changed(table.name, may_be_null(column))
        raise RowRefused(BecameNullable(said.message, hint=said.hint, table=table.name), row)


def _refuse_cut_inserts(table: SourceTable, lengths: Ints, inserted: npt.NDArray[np.bool_]) -> None:
    """An UPDATE that brings a row into the row filter comes as an INSERT, without the large values it left alone."""
    cut = (lengths == ABSENT) & inserted
    if cut.any():
        row = int(cut.any(axis=0).argmax())
        column = table.schema.names[int(cut[:, row].argmax())]
        error = DecodeError(
            f"a row of {table.name} came into its row filter without its value of {column}: the WAL does not have it",
            hint=f"Copy the table again: ps.resync(…, {table.name!r}). ALTER TABLE {table.spelled} REPLICA IDENTITY "
            "FULL before that keeps it from happening again.",
        )
        raise RowRefused(error, row)


def _absent(lengths: Ints) -> pa.Array:
    """Positions of the absent columns per row, as text; NULL where the row is complete. Patterns are few."""
    missing = lengths == ABSENT
    count = lengths.shape[1]
    if not missing.any():
        return pa.nulls(count, pa.string())
    packed = np.packbits(missing, axis=0)
    if len(packed) == 1:  # up to eight columns; by itself it is found much faster
        first, which = np.unique(packed[0], return_inverse=True)
        patterns = first.reshape(1, -1)
    else:
        patterns, which = np.unique(packed, axis=1, return_inverse=True)
    spelled = np.unpackbits(patterns, axis=0, count=lengths.shape[0])
    texts = [",".join(str(position) for position in np.flatnonzero(line)) or None for line in spelled.T]
    return pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))


def op_strings(ops: Ints) -> pa.Array:
    """One letter per row."""
    bounds = np.arange(len(ops) + 1, dtype=np.int32)
    letters = ops.astype(np.uint8)
    return pa.Array.from_buffers(pa.string(), len(ops), [None, pa.py_buffer(bounds), pa.py_buffer(letters)])


def op_letters(ops: pa.ChunkedArray) -> Bytes:
    """The letters of `op_strings` again.

    >>> some = pa.chunked_array([op_strings(np.frombuffer(b"IUUD", np.uint8)).slice(1), pa.array(["T"])])
    >>> op_letters(some).tobytes()
    b'UUDT'
    """
    found = []
    for chunk in ops.chunks:
        _, bounds, letters = chunk.buffers()
        first = np.frombuffer(bounds, np.int32)[chunk.offset]
        found.append(np.frombuffer(letters, np.uint8)[first : first + len(chunk)])
    return np.concatenate(found) if found else np.empty(0, np.uint8)
