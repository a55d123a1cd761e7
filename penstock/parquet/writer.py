"""A Parquet file, written from its begin to its end.

What is given at once is a row group, and of each column mostly one page, in however many pieces its values come; many
small pieces are put together first. What Snappy hardly makes smaller is left as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.parquet.columns import Bytes, Column, Extremes, bits, column_of
from penstock.parquet.footer import MAGIC, RowGroup, Written, footer, page_header
from penstock.parquet.thrift import varint

_UNCOMPRESSED, _SNAPPY = 0, 1
_PAGE = 1 << 20  # bytes; one of up to twice as many is not divided
_PIECE, _COMBINED = 4_096, 64 << 20  # rows: a page of fewer is not worth its header; bytes that are copied for it
_ROOM = 16 << 20  # bytes that are kept for the next row group
_SAMPLE, _WORTH = 16 << 10, 0.85  # bytes that tell whether all are worth compressing, and what of them may be left
_TOGETHER = 64 << 10  # bytes up to which it waits for more


class Sink(Protocol):
    def write(self, content: memoryview, /) -> object:
        """All of it, at once: what it lies in is written over afterwards."""


def can_write(schema: pa.Schema) -> bool:
    return len(schema) > 0 and all(column_of(field.type) is not None for field in schema)


class Writer:
    """`extremes` names the columns whose least and greatest values are told; all, if it is None."""

    def __init__(self, sink: Sink, schema: pa.Schema, *, extremes: Collection[str] | None = None) -> None:
        self._columns = [column for field in schema if (column := column_of(field.type)) is not None]
        self._told = [extremes is None or name in extremes for name in schema.names]
        self._schema = schema
        self._sink = sink
        self._codec = pa.Codec("snappy")
        self._groups: list[RowGroup] = []
        self._room: Bytes = np.empty(0, np.uint8)
        self._waiting = bytearray(MAGIC)
        self._position = len(MAGIC)

    def write(self, rows: pa.Table) -> None:
        """As a row group of its own."""
        self._check(rows)
        if not rows.num_rows:
            return
        pieces = max(column.num_chunks for column in rows.columns)
        if pieces > 1 and rows.num_rows < pieces * _PIECE and rows.nbytes < _COMBINED:
            rows = rows.combine_chunks()
        fields = zip(self._columns, rows.columns, self._schema, self._told, strict=True)
        written = [self._column(column, values, field.nullable, told) for column, values, field, told in fields]
        self._groups.append(RowGroup(rows.num_rows, written))
        if len(self._room) > _ROOM:
            self._room = np.empty(0, np.uint8)

    def _check(self, rows: pa.Table) -> None:
        """Values are taken from memory as the schema says that they lie there."""
        if not rows.schema.equals(self._schema):
            raise ValueError(f"rows of another shape:\n{rows.schema}\nbut the file has\n{self._schema}")
        for column, field in zip(rows.columns, self._schema, strict=True):
            if column.null_count and not field.nullable:
                raise ValueError(f"a NULL in {field.name}, which must have none")

    def close(self) -> pq.FileMetaData:
        """Ends the file; what it says of itself, as Arrow understands it."""
        told = footer(self._schema, self._columns, self._groups)
        self._put(memoryview(told))
        self._flush()
        return pq.read_metadata(pa.BufferReader(MAGIC + told))

    def abandon(self) -> None:
        """It will not end; nothing is held but memory."""

    def _column(self, column: Column, values: pa.ChunkedArray, nullable: bool, told: bool) -> Written:
        start, size = self._position, 0
        codec: int | None = None if column.compressible else _UNCOMPRESSED
        found: list[tuple[Any, Any]] = []
        for arrays in _pages(values):
            page = _page(arrays)
            body, extremes = self._body(column, page, page.levels() if nullable else b"", told)
            codec = self._chosen(body) if codec is None else codec
            # The buffer was made smaller since it was made, which its memoryview does not know; that of a slice does.
            content: Any = self._codec.compress(body).slice(0) if codec == _SNAPPY else body
            packed = memoryview(content)
            header = page_header(page.count, column.encoding, len(body), len(packed))
            self._put(memoryview(header))
            self._put(packed)
            size += len(header) + len(body)
            if extremes is not None:
                found.append(extremes)
            elif page.nulls < page.count:
                told = False
        spelled = column.spell(min(low for low, _ in found), max(high for _, high in found)) if told and found else None
        compressed = self._position - start
        return Written(start, len(values), values.null_count, size, compressed, codec or _UNCOMPRESSED, spelled)

    def _body(self, column: Column, page: _Page, levels: bytes, told: bool) -> tuple[Bytes, Extremes | None]:
        """A page before it is compressed."""

        def room(size: int) -> Bytes:
            if len(self._room) < before + size:
                self._room = np.empty((before + size) * 5 // 4, np.uint8)
            return self._room[before:]

        before = len(levels)
        used, extremes = column.encode(page.there, room, told)
        self._room[:before] = np.frombuffer(levels, np.uint8)
        return self._room[: before + used], extremes

    def _chosen(self, body: Bytes) -> int:
        sample = body[:_SAMPLE]
        return _SNAPPY if len(self._codec.compress(sample)) < len(sample) * _WORTH else _UNCOMPRESSED

    def _put(self, content: memoryview) -> None:
        self._position += len(content)
        if len(self._waiting) + len(content) <= _TOGETHER:
            self._waiting += content
            return
        self._flush()
        self._sink.write(content)

    def _flush(self) -> None:
        if self._waiting:
            self._sink.write(memoryview(self._waiting))
            self._waiting = bytearray()


@dataclass(frozen=True)
class _Page:
    """Values of a column, in one array if any is NULL; `there` has those that are not."""

    arrays: Sequence[pa.Array]
    there: Sequence[pa.Array]
    count: int
    nulls: int

    def levels(self) -> bytes:
        """Which values are there, a bit each; runs of the same in one word. Behind their length."""
        if self.nulls in (0, self.count):
            told = varint(self.count << 1) + bytes([self.nulls == 0])
        else:
            (array,) = self.arrays
            there = bits(array.buffers()[0], array.offset, len(array))
            told = varint(len(there) << 1 | 1) + there.tobytes()
        return len(told).to_bytes(4, "little") + told


def _page(arrays: Sequence[pa.Array]) -> _Page:
    count, nulls = sum(map(len, arrays)), sum(array.null_count for array in arrays)
    if not nulls:
        return _Page(arrays, arrays, count, nulls)
    whole = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    return _Page([whole], [whole.drop_null()], count, nulls)


def _pages(values: pa.ChunkedArray) -> Iterator[Sequence[pa.Array]]:
    """All of it is mostly one."""
    if values.nbytes <= 2 * _PAGE:
        yield values.chunks
        return
    waiting: list[pa.Array] = []
    size = 0
    for array in (part for piece in values.chunks for part in _divided(piece)):
        if waiting and size + array.nbytes > 2 * _PAGE:
            yield waiting
            waiting, size = [], 0
        waiting.append(array)
        size += array.nbytes
    if waiting:
        yield waiting


def _divided(piece: pa.Array) -> Iterator[pa.Array]:
    """Of rows that differ in size, by halves, until none is too large or one row is left."""
    if len(piece) > 1 and piece.nbytes > 2 * _PAGE:
        half = len(piece) // 2
        yield from _divided(piece.slice(0, half))
        yield from _divided(piece.slice(half))
    elif len(piece):
        yield piece
