"""Segments: Parquet files of weighted rows, each written once, fsynced with its folder, and never changed.

A segment's name carries its attempt, so a file of an attempt that never committed can be told apart and collected. A
position is an LSN for a source table (each row has its own, `_lsn`) and a round for a view (one for the whole file, or,
where several were put together, `_lsn` as well). Beside each file is one that describes it; where a file has few rows,
it is owed (`Home.owed`) until the upkeep's next step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count, groupby
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import StorageDamaged
from penstock.fitted import fitted
from penstock.relation.description import (
    Ranges,
    described,
    file_checksum,
    positions_of,
    ranges_of,
    times_of,
)
from penstock.relation.encoded import Encoded
from penstock.relation.home import Home, Owed, stem_of
from penstock.relation.recent_files import RECENT
from penstock.relation.rotation import ROTATION, Rotation
from penstock.relation.schema import Schema
from penstock.relation.storage import writing

Form = Literal["raw", "settled"]
# Where the segments of a round that is being computed are: after everything committed, until it has a number.
PENDING = 1 << 62
_FEW, _MANY = 100, 20_000
_MOST_OWED = 2_000  # descriptions: where nobody takes a step of the upkeep, they are written at once


@dataclass(frozen=True)
class Segment:
    """A file of changes with the positions of its first and last row, and what readers may skip it by."""

    path: str
    rows: int
    bytes: int
    low: int
    high: int
    version: int = 1
    form: Form = "settled"
    first_time: datetime | None = None  # of its commits
    last_time: datetime | None = None
    checksum: str | None = None  # unknown for files from before there were any
    ranges: Ranges = field(default_factory=dict, hash=False)  # of integer columns

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Segment:
        """As the catalog holds it."""
        return cls(**{**row, "ranges": {name: (low, high) for name, (low, high) in row["ranges"].items()}})


class SegmentWriter:
    """Names and writes the segments of one attempt for one relation.

    `durable` makes a file and the one beside it durable: now, or before the caller counts on it.
    """

    def __init__(
        self,
        home: Home,
        folder: str,
        attempt: int,
        *,
        numbers: Iterator[int] | None = None,
        durable: Callable[[Path], None] | None = None,
    ) -> None:
        self._home = home
        self._folder = folder
        self._attempt = attempt
        self._numbers = numbers or count(1)
        self._durable = durable or make_durable

    def write(self, rows: pa.Table, low: int, high: int, *, version: int = 1, form: Form = "settled") -> Segment:
        """Rows that are all here."""
        to = self.next_path() if rows.num_rows > _MANY else None
        encoded = Encoded(rows.schema, to=to, few=rows.num_rows <= _FEW)
        encoded.append(rows)
        segment = self.put(encoded, low, high, version=version, form=form, few=rows.num_rows <= _FEW)
        RECENT.remember(self._home.path(segment.path), rows, segment.bytes)
        return segment

    def put(
        self, encoded: Encoded, low: int, high: int, *, version: int = 1, form: Form = "settled", few: bool = False
    ) -> Segment:  # fmt: skip
        """Make a file of what was encoded. Of `few` rows, a second file takes as long as the first: it can wait, and
        mostly these are put together with others before it is time for it."""
        path = encoded.path or self.next_path()
        checksum, footer = encoded.end(path)
        return self._described(path, footer, checksum, low, high, version, form, later=few)

    def next_path(self) -> Path:
        folder = self._home.segments(self._folder, datetime.now(UTC))
        _durable_folder(folder, self._home.changelog())
        return folder / f"{stem_of(self._folder)}_a{self._attempt:08d}-{next(self._numbers):04d}.parquet"

    def adopt(self, files: Iterable[Path], position: int, *, version: int = 1) -> list[Segment]:
        """Take over finished Parquet files that Spark wrote on the same file system."""
        adopted = []
        for file in files:
            path = self.next_path()
            file.rename(path)
            footer = pq.read_metadata(path)
            checksum = file_checksum(path)
            adopted.append(self._described(path, footer, checksum, position, position, version, "settled"))
        return adopted

    def file(self, schema: pa.Schema, *, quick: bool = False, rotation: Rotation = ROTATION) -> SegmentFile:
        """Segments that are written part by part."""
        return SegmentFile(self, schema, rotation, quick=quick)

    def finished(
        self, path: Path, footer: pq.FileMetaData, checksum: str, low: int, high: int, version: int
    ) -> Segment:
        """A file that was written in parts is whole: make it durable."""
        return self._described(path, footer, checksum, low, high, version, "settled")

    def _described(
        self, path: Path, footer: pq.FileMetaData, checksum: str, low: int, high: int, version: int, form: Form, *,
        later: bool = False,
    ) -> Segment:  # fmt: skip
        """Write the file beside it, now or later, and make both durable together."""
        first, last = times_of(footer)
        ranges, size, relative = ranges_of(footer), path.stat().st_size, self._home.relative(path)
        segment = Segment(relative, footer.num_rows, size, low, high, version, form, first, last, checksum, ranges)
        if later and len(self._home.owed) < _MOST_OWED:
            self._home.owed.append(Owed(self._folder, segment, time.monotonic()))
        else:
            describe(self._home, self._folder, segment)
        self._durable(path)
        return segment


class SegmentFile:
    """Settled segments that are written part by part, so that they need not fit into memory: a file at a time."""

    def __init__(self, writer: SegmentWriter, schema: pa.Schema, rotation: Rotation, *, quick: bool) -> None:
        self._writer = writer
        self._schema = schema
        self._rotation = rotation
        self._quick = quick
        self._file: Encoded | None = None
        self._path = Path()
        self._rows = 0
        self._done: list[tuple[Path, str, pq.FileMetaData]] = []

    def write(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        if self._file is None:
            self._path, self._rows = self._writer.next_path(), 0
            self._file = Encoded(self._schema, to=self._path, small=not self._quick)
        self._file.append(rows.select(self._schema.names).cast(self._schema))
        self._rows += rows.num_rows
        if self._rotation.full(self._rows, self._file.bytes):
            self._end()

    def _end(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            self._done.append((self._path, *file.end(self._path)))

    def finish(self, position: int | None, *, version: int = 1) -> list[Segment]:
        """Make what was written durable; without rows there is no file. None: each row has its own position."""
        self._end()
        positions = [positions_of(footer) if position is None else (position, position) for *_, footer in self._done]
        return [
            self._writer.finished(path, footer, checksum, low, high, version)
            for (path, checksum, footer), (low, high) in zip(self._done, positions, strict=True)
        ]

    def abandon(self) -> None:
        if self._file is not None:
            self._file.abandon()
        for path, *_ in self._done:
            remove(path)


def description_path(path: Path) -> Path:
    return path.with_suffix(".json")


def describe(home: Home, folder: str, segment: Segment) -> Path:
    """Write the file beside a segment of the relation with this folder: all of it, or none."""
    beside = description_path(home.path(segment.path))
    part = beside.with_suffix(".json.part")
    with writing(part):
        part.write_text(described(folder, segment))
    return part.replace(beside)


def remove(path: Path) -> None:
    """A segment and what describes it; it may be gone already."""
    path.unlink(missing_ok=True)
    description_path(path).unlink(missing_ok=True)


def make_durable(*paths: Path) -> None:
    """Segments, with what is beside them if that is there already; mostly they are in one folder."""
    for _, files in groupby(paths, key=lambda path: path.parent):
        own = list(files)
        with writing(own[0]):
            sync(*own, *filter(Path.exists, map(description_path, own)))


def sync(*files: Path) -> None:
    """Make files of one folder and their names durable."""
    for target in (*files, files[0].parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_durable: set[Path] = set()


def _durable_folder(folder: Path, root: Path) -> None:
    """The folder exists, and so it does after a crash: with a new one, all above it up to `root` are synced."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder not in _durable:
        for above in folder.parents:
            sync(above)
            if above == root:
                break
        _durable.add(folder)


def bounded(segments: Iterable[Segment], size: Callable[[Segment], int], most: int) -> Iterator[list[Segment]]:
    """Segments in their order, as many at a time as stay within `most`; one that is larger comes alone."""
    some: list[Segment] = []
    for one in segments:
        if some and sum(map(size, some)) + size(one) > most:
            yield some
            some = []
        some.append(one)
    if some:
        yield some


def read(
    home: Home,
    segments: Sequence[Segment],
    schema: pa.Schema,
    *,
    after: int | None = None,
    until: int | None = None,
) -> pa.Table:
    """The rows of `schema`'s columns, of segments with several positions only those in (`after`, `until`]."""
    try:
        tables = [_read_one(home.path(segment.path), segment, schema, after, until) for segment in segments]
    except FileNotFoundError as error:
        raise StorageDamaged(
            f"a segment is gone: {error}",
            hint="Restore the home and its catalog from one backup, or re-sync the table; see docs/backup.md.",
        ) from error
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _read_one(path: Path, segment: Segment, schema: pa.Schema, after: int | None, until: int | None) -> pa.Table:
    cut_low = after is not None and segment.low <= after
    cut_high = until is not None and segment.high > until
    names = schema.names
    if not (cut_low or cut_high):
        return fitted(RECENT.read(path, names), schema)
    rows = RECENT.read(path, [*names, *(["_lsn"] if "_lsn" not in names else [])])
    mask = pa.scalar(True)
    if cut_low:
        mask = pc.and_(mask, pc.greater(rows["_lsn"], after))
    if cut_high:
        mask = pc.and_(mask, pc.less_equal(rows["_lsn"], until))
    return fitted(rows.filter(mask).select(names), schema)


def rows_with_weight(schema: Schema, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([*schema.arrow(columns), pa.field("_weight", pa.int64())])


def timed(found: Sequence[Segment]) -> list[Segment]:
    """Segments of a round whose time is known only now."""
    now = datetime.now(UTC)
    return [replace(one, first_time=now, last_time=now) for one in found]
