"""What a Parquet file says of itself: of each page in front of it, of the rest behind all pages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from penstock.parquet.columns import Column
from penstock.parquet.thrift import Value, binary, boolean, i16, i32, i64, items, struct, text

MAGIC = b"PAR1"
CREATOR = "penstock"
_FORMAT = 2
_REQUIRED, _OPTIONAL = 0, 1
_RLE = 3  # the encoding of what says which values are NULL
_DATA_PAGE = 0


@dataclass(frozen=True)
class Written:
    """The pages of one column in one row group."""

    offset: int
    values: int
    nulls: int
    size: int
    compressed: int
    codec: int
    extremes: tuple[bytes, bytes] | None  # the least and the greatest of its values


@dataclass(frozen=True)
class RowGroup:
    rows: int
    columns: Sequence[Written]


def page_header(values: int, encoding: int, size: int, compressed: int) -> bytes:
    return struct({1: i32(_DATA_PAGE), 2: i32(size), 3: i32(compressed), 5: _page(values, encoding)}).encoded


@lru_cache
def _page(values: int, encoding: int) -> Value:
    return struct({1: i32(values), 2: i32(encoding), 3: i32(_RLE), 4: i32(_RLE)})


def footer(schema: pa.Schema, columns: Sequence[Column], groups: Sequence[RowGroup]) -> bytes:
    """With its length and the file's last mark."""
    top = struct({3: i32(_REQUIRED), 4: text("schema"), 5: i32(len(columns))})
    ordered = struct({1: struct({})})
    told = struct(
        {
            1: i32(_FORMAT),
            2: items([top, *(_element(field, column) for field, column in zip(schema, columns, strict=True))]),
            3: i64(sum(group.rows for group in groups)),
            4: items([_group(number, schema, columns, group) for number, group in enumerate(groups)]),
            5: items([_arrow_schema(schema)]),
            6: text(f"{CREATOR} version 1"),
            7: items([ordered] * len(columns)),
        }
    ).encoded
    return told + len(told).to_bytes(4, "little") + MAGIC


def _arrow_schema(schema: pa.Schema) -> Value:
    """Arrow reads its own types from it."""
    return struct({1: text("ARROW:schema"), 2: binary(base64.b64encode(schema.serialize()))})


def _element(field: pa.Field, column: Column) -> Value:
    decimal = pa.types.is_decimal(field.type)
    return struct(
        {
            1: i32(column.physical),
            2: i32(column.size) if column.size else None,
            3: i32(_OPTIONAL if field.nullable else _REQUIRED),
            4: text(field.name),
            6: i32(column.converted) if column.converted is not None else None,
            7: i32(field.type.scale) if decimal else None,
            8: i32(field.type.precision) if decimal else None,
            10: column.logical,
        }
    )


def _group(number: int, schema: pa.Schema, columns: Sequence[Column], group: RowGroup) -> Value:
    parts = zip(schema.names, columns, group.columns, strict=True)
    return struct(
        {
            1: items([_chunk(name, column, written) for name, column, written in parts]),
            2: i64(sum(written.size for written in group.columns)),
            3: i64(group.rows),
            5: i64(group.columns[0].offset),
            6: i64(sum(written.compressed for written in group.columns)),
            7: i16(number) if number < 1 << 15 else None,
        }
    )


@lru_cache(1 << 12)
def _constant(name: str, physical: int, encoding: int) -> tuple[Value, Value, Value]:
    """What every row group says of a column again."""
    return i32(physical), items([i32(_RLE), i32(encoding)]), items([text(name)])


def _chunk(name: str, column: Column, written: Written) -> Value:
    physical, encodings, path = _constant(name, column.physical, column.encoding)
    told = {
        1: physical,
        2: encodings,
        3: path,
        4: i32(written.codec),
        5: i64(written.values),
        6: i64(written.size),
        7: i64(written.compressed),
        9: i64(written.offset),
        12: _statistics(written),
    }
    return struct({2: i64(0), 3: struct(told)})


def _statistics(written: Written) -> Value:
    if written.extremes is None:
        return struct({3: i64(written.nulls)})
    low, high = map(binary, written.extremes)
    return struct({3: i64(written.nulls), 5: high, 6: low, 7: boolean(True), 8: boolean(True)})
