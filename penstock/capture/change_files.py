"""The files of one attempt, written beside the reading: nothing of them counts before the attempt commits.

Rows of a table that many come of are encoded while more of them come, so that little is left to do when a file ends: a
backlog's last rows are waited for by everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.home_copy import HomeCopies
from penstock.relation.home import Home
from penstock.relation.rotation import ROTATION
from penstock.relation.segment import Encoded, Form, Segment, SegmentWriter, make_durable
from penstock.zset import WEIGHT

Version = tuple[str, int]
"""A table and the version of its shape."""
Waiting = Mapping[Version, list[pa.Table]]
Durable = Callable[[Path], None]


class ChangeFiles:
    """One thread writes, in the order in which it was told to; at most one file's worth is ahead of it."""

    def __init__(self, home: Home, copies: HomeCopies, form_of: Callable[[str, pa.Table], Form]) -> None:
        self.written: dict[str, list[Segment]] = {}
        self.told = False  # whether `written` has everything already, durable or not
        self._home = home
        self._copies = copies
        self._form_of = form_of
        self._growing: dict[Version, _Growing] = {}  # only the thread looks at it
        self._named: Counter[tuple[int, str]] = Counter()  # files by attempt and table
        self._writer = ThreadPoolExecutor(1, "penstock-segments")
        self._disk = ThreadPoolExecutor(4, "penstock-files")
        self._ending: list[Future[None]] = []  # all that was told up to the last `write`
        self._since: list[Future[None]] = []

    def grow(self, attempt: int, of: Version, parts: list[pa.Table]) -> None:
        """Encode rows whose file goes on; `write` ends it."""
        self._since.append(self._writer.submit(self._grow, attempt, of, parts))

    def write(self, attempt: int, waiting: Waiting, *, few: bool) -> None:
        """End what has grown, with what waits behind it, once the files before are written.

        Of `few` rows, handing them to a thread takes longer than encoding them: only the disk is waited for beside.
        """
        _done(self._ending)
        self.told = few and not self._since
        if self.told:
            written: list[Path] = []
            for of in sorted(waiting):
                self._write_file(attempt, {}, waiting, of, written.append)
            self._ending = [self._disk.submit(make_durable, *written)] if written else []
            return
        self._ending = [*self._since, self._writer.submit(self._write, attempt, waiting)]
        self._since = []

    def finish(self) -> None:
        """Wait until everything is written."""
        _done([*self._ending, *self._since])

    def close(self) -> None:
        self._writer.shutdown()
        self._disk.shutdown()
        for one in self._growing.values():
            one.abandon()

    def _grow(self, attempt: int, of: Version, parts: list[pa.Table]) -> None:
        rows = pa.concat_tables(parts)
        if of not in self._growing:
            writer = self._segments(attempt, of[0], make_durable)
            self._growing[of] = _Growing(writer, rows)
            self._named[attempt, of[0]] = writer.count
        self._growing[of].append(rows, self._form_of(of[0], rows))

    def _write(self, attempt: int, waiting: Waiting) -> None:
        growing, self._growing = self._growing, {}
        for of in sorted({*growing, *waiting}):  # earlier shapes of a table first
            self._write_file(attempt, growing, waiting, of, make_durable)

    def _write_file(
        self, attempt: int, growing: Mapping[Version, _Growing], waiting: Waiting, of: Version, durable: Durable
    ) -> None:
        table, version = of
        done = self.written.setdefault(table, [])
        rows = pa.concat_tables(waiting[of]) if waiting.get(of) else None
        if of in growing:
            if rows is not None:
                growing[of].append(rows, self._form_of(table, rows))
            done.append(growing[of].end(version))
        elif rows is not None:
            writer = self._segments(attempt, table, durable)
            for part in (part for piece in self._copies.split(table, rows) for part in ROTATION.parts(piece)):
                low, high = _positions(part)
                done.append(writer.write(part, low, high, version=version, form=self._form_of(table, part)))
            self._named[attempt, table] = writer.count

    def _segments(self, attempt: int, table: str, durable: Durable) -> SegmentWriter:
        named = self._named[attempt, table]
        return SegmentWriter(self._home, self._copies.folder(table), attempt, first=named, durable=durable)


class _Growing:
    """Rows of one version of a table that are encoded already."""

    def __init__(self, writer: SegmentWriter, first: pa.Table) -> None:
        self._writer = writer
        self._encoded = Encoded(first.schema, to=writer.next_path(), removes=pc.min(first[WEIGHT]).as_py() < 0)
        self._positions: list[int] = []
        self._forms: set[Form] = set()

    def append(self, rows: pa.Table, form: Form) -> None:
        self._encoded.append(rows)
        self._positions += _positions(rows)
        self._forms.add(form)

    def end(self, version: int) -> Segment:
        form: Form = "raw" if "raw" in self._forms else "settled"
        low, high = min(self._positions), max(self._positions)
        return self._writer.put(self._encoded, low, high, version=version, form=form)

    def abandon(self) -> None:
        self._encoded.abandon()


def _done(writing: list[Future[None]]) -> None:
    for one in writing:
        one.result()


def _positions(rows: pa.Table) -> tuple[int, int]:
    found = pc.min_max(rows["_lsn"]).as_py()
    return found["min"], found["max"]
