"""Rows of an open transaction that are too many for memory: Arrow IPC files in a folder of their own.

Nothing in it outlives the process on purpose: the server sends an open transaction again, so the folder is emptied when
a source is opened and removed when it is closed. A file goes as soon as its last rows were read back.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from penstock import failpoint
from penstock.capture.fields import Ints
from penstock.capture.rows import Rows
from penstock.errors import SourceError, StorageFull
from penstock.relation.storage import is_full

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass
class SpillFile:
    path: Path
    readers: int


@dataclass(frozen=True)
class Place:
    """Where rows were put."""

    file: SpillFile
    offset: int
    size: int
    nbytes: int  # of the rows in memory


class Spill:
    """The spill folder of one source."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.bytes = 0
        shutil.rmtree(folder, ignore_errors=True)

    def write(self, groups: Iterable[Rows]) -> list[Place]:
        """All of `groups` into one file."""
        self._count += 1
        file = SpillFile(self._folder / f"{self._count:06d}.arrow", 0)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with file.path.open("wb") as out:
                places = [_write(out, rows, file) for rows in groups]
        except OSError as error:
            file.path.unlink(missing_ok=True)
            kind = StorageFull if is_full(error) else SourceError
            raise kind(
                f"a large transaction could not be put into {file.path}: {error.strerror or error}",
                hint="Make room there, name another folder with spill_directory, or allow more memory with "
                "max_transaction_memory_bytes; then open the source again. Nothing was lost.",
            ) from error
        file.readers = len(places)
        failpoint.hit("capture.spilled")
        self.bytes += sum(place.size for place in places)
        return places

    def read(self, place: Place) -> Rows:
        """The rows again; the file goes with its last ones."""
        try:
            with place.file.path.open("rb") as file:
                file.seek(place.offset)
                data = file.read(place.size)
        except OSError as error:
            raise SourceError(
                f"rows that were put into {place.file.path} could not be read back: {error.strerror or error}",
                hint="Name a folder that nobody else empties with spill_directory, and open the source again from its "
                "checkpoint. Nothing was lost.",
            ) from error
        self.release(place)
        batch = pa.ipc.open_stream(data).read_next_batch()
        *columns, weights, ops, seqs, absent = batch.columns
        return Rows(tuple(columns), _ints(weights), _ints(ops), _ints(seqs), absent)

    def release(self, place: Place) -> None:
        place.file.readers -= 1
        if place.file.readers == 0:
            place.file.path.unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _write(out: BinaryIO, rows: Rows, file: SpillFile) -> Place:
    offset = out.tell()
    beside = [pa.array(np.ascontiguousarray(values)) for values in (rows.weights, rows.ops, rows.seqs)]
    arrays = [*rows.columns, *beside, rows.absent]
    batch = pa.RecordBatch.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])
    with pa.ipc.new_stream(out, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return Place(file, offset, out.tell() - offset, rows.nbytes)


def _ints(values: pa.Array) -> Ints:
    return np.asarray(values, np.int64)
