"""The files of one attempt, written beside the reading: nothing of them counts before the attempt commits.

Rows of a table that many come of are encoded while more of them come, so that little is left to do when a file ends: a
backlog's last rows are waited for by everybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.home_copy import HomeCopies
from penstock.relation.encoded import Encoded
from penstock.relation.home import Home
from penstock.relation.rotation import ROTATION
from penstock.relation.segment import Form, Segment, SegmentWriter, make_durable
from penstock.zset import WEIGHT

Version = tuple[str, int]
"""A table and the version of its shape."""
Waiting = Mapping[Version, list[pa.Table]]
Durable = Callable[[Path], None]
FormOf = Callable[[str, pa.Table], Form]


class ChangeFiles:
    """Two threads write in turns, each what lies between one `write` and the next: while one waits for the disk, the
    other encodes. No more than what they are at is ahead of them."""

    def __init__(self, home: Home, copies: HomeCopies, form_of: FormOf) -> None:
        self.written: dict[str, list[Segment]] = {}
        self.told = False  # whether `written` has everything already, durable or not
        self._home = home
        self._copies = copies
        self._form_of = form_of
        self._growing: dict[Version, _Growing] = {}
        self._attempt = 0
        self._numbers: dict[str, Iterator[int]] = {}  # of its files, by table
        self._writers = deque(ThreadPoolExecutor(1, f"penstock-segments-{number}") for number in range(2))
        self._disk = ThreadPoolExecutor(4, "penstock-files")
        self._since: list[Future[Any]] = []  # what has grown since the last `write`
        self._rounds: deque[list[Future[Any]]] = deque()  # of each `write`, as long as it may be under way
        self._ended: list[tuple[str, Future[list[Segment]]]] = []  # files by table, in the order of their rows

    def grow(self, attempt: int, of: Version, parts: list[pa.Table]) -> None:
        """Encode rows whose file goes on; `write` ends it."""
        if of not in self._growing:
            self._growing[of] = _Growing(self._segments(attempt, of[0], make_durable), of, self._form_of)
        self._since.append(self._writers[0].submit(self._growing[of].append, parts))

    def write(self, attempt: int, waiting: Waiting, *, few: bool) -> None:
        """End what has grown, with what waits behind it, once there is a thread for what comes next.

        Of `few` rows, handing them to a thread takes longer than encoding them: only the disk is waited for beside.
        """
        self.told = few and not self._growing
        if self.told:
            self.finish()
            written: list[Path] = []
            for of in sorted(waiting):
                writer = self._segments(attempt, of[0], written.append)
                self.written.setdefault(of[0], []).extend(self._write(writer, of, waiting[of]))
            self._rounds.append([self._disk.submit(make_durable, *written)] if written else [])
            return
        self._wait(most=len(self._writers) - 1)
        growing, self._growing = self._growing, {}
        for of in sorted({*growing, *waiting}):  # earlier shapes of a table first
            parts = waiting.get(of, [])
            if of in growing:
                end = self._writers[0].submit(growing[of].end, parts)
            else:
                writer = self._segments(attempt, of[0], make_durable)
                end = self._writers[0].submit(self._write, writer, of, parts)
            self._ended.append((of[0], end))
            self._since.append(end)
        self._rounds.append(self._since)
        self._since = []
        self._writers.rotate()

    def finish(self) -> None:
        """Wait until everything is written."""
        self._wait(most=0)
        _done(self._since)
        for table, files in self._ended:
            self.written.setdefault(table, []).extend(files.result())
        self._ended = []

    def close(self) -> None:
        for thread in (*self._writers, self._disk):
            thread.shutdown()
        for one in self._growing.values():
            one.abandon()

    def _wait(self, most: int) -> None:
        """Until no more rounds than that are under way."""
        while len(self._rounds) > most:
            _done(self._rounds.popleft())

    def _write(self, writer: SegmentWriter, of: Version, parts: list[pa.Table]) -> list[Segment]:
        table, version = of
        if not parts:
            return []
        pieces = self._copies.split(table, pa.concat_tables(parts))
        return [
            writer.write(part, *_positions(part), version=version, form=self._form_of(table, part))
            for piece in pieces
            for part in ROTATION.parts(piece)
        ]

    def _segments(self, attempt: int, table: str, durable: Durable) -> SegmentWriter:
        if attempt != self._attempt:
            self._attempt, self._numbers = attempt, {}
        numbers = self._numbers.setdefault(table, count(1))
        return SegmentWriter(self._home, self._copies.folder(table), attempt, numbers=numbers, durable=durable)


class _Growing:
    """Rows of one version of a table that are encoded already."""

    def __init__(self, writer: SegmentWriter, of: Version, form_of: FormOf) -> None:
        self._writer = writer
        self._table, self._version = of
        self._form_of = form_of
        self._encoded: Encoded | None = None
        self._positions: list[int] = []
        self._forms: set[Form] = set()

    def append(self, parts: list[pa.Table]) -> None:
        rows = pa.concat_tables(parts)
        self._forms.add(self._form_of(self._table, rows))
        if self._encoded is None:
            removes = pc.min(rows[WEIGHT]).as_py() < 0
            self._encoded = Encoded(rows.schema, to=self._writer.next_path(), removes=removes)
        self._encoded.append(rows)
        self._positions += _positions(rows)

    def end(self, parts: list[pa.Table]) -> list[Segment]:
        """The file, with these behind the others."""
        if parts:
            self.append(parts)
        assert self._encoded is not None
        form: Form = "raw" if "raw" in self._forms else "settled"
        low, high = min(self._positions), max(self._positions)
        return [self._writer.put(self._encoded, low, high, version=self._version, form=form)]

    def abandon(self) -> None:
        if self._encoded is not None:
            self._encoded.abandon()


def _done(writing: Iterable[Future[Any]]) -> None:
    for one in writing:
        one.result()


def _positions(rows: pa.Table) -> tuple[int, int]:
    found = pc.min_max(rows["_lsn"]).as_py()
    return found["min"], found["max"]
