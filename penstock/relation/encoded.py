"""Rows as they are in their file, Parquet: by our own writer where many come and their columns are plain, else Arrow's.

Of few rows, nothing is won by compressing them well, and to make zstd ready takes longer than the rest. Where there are
many, somebody is behind: encoding them fast counts for more.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.parquet.writer import Writer, can_write
from penstock.relation.description import checksum_of, spelled_checksum
from penstock.relation.storage import writing
from penstock.zset import RAW_FIELDS

_ROW_GROUP = 128 * 1024
# Dictionaries of all columns cost four times the rest of the writing, and more room: values of a change rarely repeat.
_REPEATED = [field.name for field in RAW_FIELDS if field.name != "_seq"]
_SMALL = {"compression": "zstd", "use_dictionary": _REPEATED}
_FEW = {"compression": "snappy", "use_dictionary": False}
_TOGETHER = 1 << 20  # bytes that are written as one
_COLUMNS = 200  # of more, our own writer would have many small pages, whose headers take longer than by Arrow
_LONG_DIGITS = 18  # of decimals that a word holds


class _Rows(Protocol):
    """What makes a file of rows."""

    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> pq.FileMetaData: ...

    def abandon(self) -> None: ...


class Encoded:
    """In memory, or, where there are many rows, already in the file at `to`: encoded fast, or to be `small`.

    Texts have statistics only in a file that may become one of a table, which one that `removes` rows never
    does: they take a tenth of the time.
    """

    def __init__(
        self, schema: pa.Schema, *,
        to: Path | None = None, few: bool = False, small: bool = False, removes: bool = False,
    ) -> None:  # fmt: skip
        self.path = to
        self._abandoned = False
        told = _without_texts(schema) if removes else None
        self._rows: _Rows
        self._sink: _Memory | _File
        if to is None:
            self._sink = _Memory()
            self._rows = _ByArrow(self._sink, schema, _FEW if few else _SMALL, told)
        else:
            self._sink = file = _File(to)
            if can_write(schema) and len(schema) <= _COLUMNS and not small:
                self._rows = Writer(file, schema, extremes=told)
            else:
                self._rows = _ByArrow(file, schema, _SMALL if small else _quick(schema), told)

    def append(self, rows: pa.Table) -> None:
        """As row groups of their own."""
        self._check_there()
        with self._whole_or_gone(self.path):
            for start in range(0, rows.num_rows, _ROW_GROUP):
                self._rows.write(rows.slice(start, _ROW_GROUP))

    def end(self, path: Path) -> tuple[str, pq.FileMetaData]:
        """The file is whole: its checksum, and what it says of itself."""
        self._check_there()
        with self._whole_or_gone(path):
            footer = self._rows.close()
            return self._sink.end(path), footer

    def abandon(self) -> None:
        """It will not end; its room is free."""
        self._abandoned = True
        self._sink.abandon()
        self._rows.abandon()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    @property
    def bytes(self) -> int:
        """In its file so far."""
        return self._sink.bytes

    def _check_there(self) -> None:
        if self._abandoned:
            raise ValueError(f"{self.path or 'a segment'} was abandoned: nothing more can be written to it")

    @contextmanager
    def _whole_or_gone(self, path: Path | None) -> Iterator[None]:
        try:
            with writing(path) if path else nullcontext():
                yield
        except BaseException:
            self.abandon()
            raise


class _ByArrow:
    """By Arrow's writer, through a stream of Arrow's."""

    def __init__(
        self, sink: _Memory | _File, schema: pa.Schema, layout: dict[str, Any], told: list[str] | None
    ) -> None:
        self._footers: list[pq.FileMetaData] = []
        self._stream = sink.stream
        self._writer = pq.ParquetWriter(
            self._stream, schema, **layout, metadata_collector=self._footers,
            write_statistics=True if told is None else told,
        )  # fmt: skip

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> pq.FileMetaData:
        self._writer.close()
        return self._footers[0]

    def abandon(self) -> None:
        with suppress(RuntimeError):  # of a file whose rows failed, Arrow has no footer to show
            self._writer.close()
        self._stream.close()


class _Memory:
    def __init__(self) -> None:
        self.stream = pa.BufferOutputStream()
        self.bytes = 0

    def end(self, path: Path) -> str:
        content = memoryview(self.stream.getvalue())
        path.write_bytes(content)
        return checksum_of(content)

    def abandon(self) -> None:
        """Nothing is held but memory."""


class _File:
    """Written from its begin to its end; the checksum grows with it.

    It and Arrow's stream hold each other until the stream is closed, and an open file holds its room though it has no
    name any more: whoever does not end it abandons it, and what the stream still has for it then goes nowhere.
    """

    def __init__(self, path: Path) -> None:
        with writing(path):
            self._file = path.open("wb", buffering=0)
        self.bytes = 0
        self._checksum = 0

    @cached_property
    def stream(self) -> pa.BufferedOutputStream:
        return pa.BufferedOutputStream(pa.PythonFile(self, "w"), _TOGETHER)

    def end(self, _: Path) -> str:
        if "stream" in self.__dict__:
            self.stream.close()
        self._file.close()
        return spelled_checksum(self._checksum)

    def abandon(self) -> None:
        self._file.close()

    def write(self, content: bytes | memoryview) -> int:
        self._checksum = zlib.crc32(content, self._checksum)
        rest = memoryview(content)
        while rest and not self._file.closed:
            rest = rest[self._file.write(rest) :]
        self.bytes += len(content)
        return len(content)

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed


def _quick(schema: pa.Schema) -> dict[str, Any]:
    """How many rows are encoded fast by Arrow. Differences of integers take a third less time than their compression,
    and much less room."""
    packed = [field.name for field in schema if field.name not in _REPEATED and _is_integer(field.type)]
    return {
        "compression": "lz4",
        "use_dictionary": _REPEATED,
        "store_decimal_as_integer": True,
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
    }


def _is_integer(arrow: pa.DataType) -> bool:
    """As Parquet has it."""
    if pa.types.is_decimal(arrow):
        return bool(arrow.precision <= _LONG_DIGITS)
    return any(of(arrow) for of in (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date))


def _without_texts(schema: pa.Schema) -> list[str]:
    return [field.name for field in schema if not (pa.types.is_string(field.type) or pa.types.is_binary(field.type))]
