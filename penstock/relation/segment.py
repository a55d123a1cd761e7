"""Segments: Parquet files of weighted rows, each written once, fsynced with its folder, and never changed.

A segment's name carries its attempt, so a file of an attempt that never committed can be told apart and collected. A
position is an LSN for a source table (each row has its own, `_lsn`) and a round for a view (one for the whole file).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.relation.home import Home
from penstock.relation.schema import Schema
from penstock.relation.storage import writing
from penstock.zset import RAW_FIELDS

Form = Literal["raw", "settled"]
_ROW_GROUP = 128 * 1024
# Dictionaries of all columns cost four times the rest of the writing, and more room: values of a change rarely repeat.
_REPEATED = [field.name for field in RAW_FIELDS if field.name != "_seq"]


@dataclass(frozen=True)
class Segment:
    """A file of changes with the positions of its first and last row."""

    path: str
    rows: int
    bytes: int
    low: int
    high: int
    version: int = 1
    form: Form = "settled"


class SegmentWriter:
    """Names and writes the segments of one attempt for one relation."""

    def __init__(self, home: Home, folder: str, attempt: int, *, first: int = 0) -> None:
        self._home = home
        self._folder = home.changelog(folder)
        self._attempt = attempt
        self._count = first

    def write(self, rows: pa.Table, low: int, high: int, *, version: int = 1, form: Form = "settled") -> Segment:
        path = self.next_path()
        with writing(path):
            pq.write_table(rows, path, compression="zstd", row_group_size=_ROW_GROUP, use_dictionary=_REPEATED)
            sync(path)
        return Segment(self._home.relative(path), rows.num_rows, path.stat().st_size, low, high, version, form)

    def next_path(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._count += 1
        return self._folder / f"a{self._attempt:08d}-{self._count:04d}.parquet"

    def adopt(self, files: Iterable[Path], position: int, *, version: int = 1) -> list[Segment]:
        """Take over finished Parquet files that Spark wrote on the same file system."""
        adopted = []
        for file in files:
            path = self.next_path()
            file.rename(path)
            sync(path)
            rows = pq.read_metadata(path).num_rows
            adopted.append(Segment(self._home.relative(path), rows, path.stat().st_size, position, position, version))
        return adopted


class SegmentFile:
    """A settled segment that is written part by part, so that it need not fit into memory."""

    def __init__(self, home: Home, path: Path, schema: pa.Schema) -> None:
        self._home = home
        self._path = path
        self._schema = schema
        with writing(path):
            # Copies wait for the compressor: snappy takes a third of the time of zstd, for twice the room.
            self._writer = pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=_REPEATED)
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        with writing(self._path):
            self._writer.write_table(rows.select(self._schema.names).cast(self._schema), row_group_size=_ROW_GROUP)
        self.rows += rows.num_rows

    def finish(self, position: int) -> list[Segment]:
        """Make it durable, all its rows being of one position; one without rows does not stay."""
        with writing(self._path):
            self._writer.close()
        if not self.rows:
            self._path.unlink()
            return []
        sync(self._path)
        size = self._path.stat().st_size
        return [Segment(self._home.relative(self._path), self.rows, size, position, position)]

    def abandon(self) -> None:
        with suppress(OSError):  # the footer of a file that goes anyway may not fit either
            self._writer.close()
        self._path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file and its name durable."""
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(
    home: Home,
    segments: Sequence[Segment],
    schema: pa.Schema,
    *,
    after: int | None = None,
    until: int | None = None,
) -> pa.Table:
    """The rows of `schema`'s columns, for source tables only those with `after` < `_lsn` <= `until`."""
    tables = [_read_one(home.path(segment.path), segment, schema, after, until) for segment in segments]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _read_one(path: Path, segment: Segment, schema: pa.Schema, after: int | None, until: int | None) -> pa.Table:
    cut_low = after is not None and segment.low <= after
    cut_high = until is not None and segment.high > until
    names = schema.names
    if not (cut_low or cut_high):
        return pq.read_table(path, columns=names, partitioning=None).cast(schema)
    rows = pq.read_table(path, columns=[*names, *(["_lsn"] if "_lsn" not in names else [])], partitioning=None)
    mask = pa.scalar(True)
    if cut_low:
        mask = pc.and_(mask, pc.greater(rows["_lsn"], after))
    if cut_high:
        mask = pc.and_(mask, pc.less_equal(rows["_lsn"], until))
    return rows.filter(mask).select(names).cast(schema)


def rows_with_weight(schema: Schema, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([*schema.arrow(columns), pa.field("_weight", pa.int64())])
