"""`cache-unchanged`: the last known large values of each row, in bounded memory.

An entry is what the last image of a key carried: every later image of that key replaces it, a deletion or a TRUNCATE
drops it, so a value that is found is the row's own. What was evicted, or written before this run, stays marked absent.
Only rows large enough to have values out of line are looked at one by one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.discover import SourceTable
from penstock.capture.row_hash import row_hashes
from penstock.capture.toast import ToastCounts, missing_values
from penstock.zset import ABSENT, WEIGHT, absent_mask, absent_texts

_LARGE_ROW = 1000  # bytes in text and binary columns: smaller rows stay in one piece (the limit is about 2 kB)
_LEAST = 24  # bytes: PostgreSQL moves nothing smaller out of line
_OVERHEAD = 200  # bytes an entry costs beside its values
_FLAGS = 1 << 20

Key = tuple[Any, ...]
Values = dict[int, Any]
Mask = npt.NDArray[np.bool_]


@dataclass
class _Fill:
    rows: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


class Remembered:
    """Entries in the order of their last use; the oldest go first."""

    def __init__(self, limit: int) -> None:
        self.counts = ToastCounts()
        self._limit = limit
        self._held = 0
        self._entries: OrderedDict[Key, Values] = OrderedDict()
        self._flags = np.zeros(_FLAGS, bool)  # where the hash of a remembered key may be
        self._left: dict[int, tuple[int, int, Values]] = {}  # of the last old image: commit, place in it, values

    def fill(self, table: SourceTable, rows: pa.Table) -> pa.Table:
        hashes = row_hashes(rows, table.schema.key) if table.schema.key else None
        if hashes is None:
            return rows
        large = [
            at
            for at, column in enumerate(table.schema.columns)
            if column.arrow in (pa.string(), pa.binary()) and column.name not in table.schema.key
        ]
        missing = missing_values(table, rows)
        which, slots = self._interesting(rows, large, missing, hashes)
        if not len(which):
            return rows
        fills = self._walk(table, rows, large, missing, which, slots)
        return _filled(table, rows, fills) if fills else rows

    def _interesting(
        self, rows: pa.Table, large: list[int], missing: Mask | None, hashes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows with large or missing values or a remembered key, and the other half of an update of such a one."""
        lengths = np.zeros(rows.num_rows, np.int64)
        for at in large:
            lengths += pc.fill_null(pc.binary_length(rows[at]), 0).to_numpy()
        slots = (hashes % np.uint64(_FLAGS)).astype(np.int64)
        added = rows[WEIGHT].to_numpy() > 0
        chosen = self._flags[slots] | (added & (lengths >= _LARGE_ROW)) | pc.equal(rows["_op"], "T").to_numpy()
        if missing is not None:
            chosen |= missing.any(axis=1)
        chosen[1:] |= chosen[:-1] & ~added[:-1]
        chosen[:-1] |= chosen[1:] & added[1:] & ~added[:-1]
        return np.flatnonzero(chosen), slots

    def _walk(
        self,
        table: SourceTable,
        rows: pa.Table,
        large: list[int],
        missing: Mask | None,
        which: npt.NDArray[np.int64],
        slots: npt.NDArray[np.int64],
    ) -> dict[int, _Fill]:
        some = rows.take(pa.array(which))
        keys = list(zip(*(some[name].to_pylist() for name in table.schema.key), strict=True))
        columns = {at: some[at] for at in large}
        lines = zip(*(some[name].to_pylist() for name in ("_op", WEIGHT, "_lsn", "_seq")), strict=True)
        fills: dict[int, _Fill] = {}
        for place, (op, weight, lsn, seq) in enumerate(lines):
            key = (table.oid, table.version, *keys[place])
            if op == "T":
                self._forget_all(table.oid)
            elif weight < 0:
                self._left[table.oid] = (lsn, seq, self._forget(key))
            else:
                before = self._before(table.oid, lsn, seq) if op == "U" else {}
                self._forget(key)
                lacking = set() if missing is None else set(np.flatnonzero(missing[which[place]]).tolist())
                values = {
                    at: value for at in large if at not in lacking and _is_large(value := columns[at][place].as_py())
                }
                for at in lacking:
                    if at in before:
                        values[at] = before[at]
                        fill = fills.setdefault(at, _Fill())
                        fill.rows.append(int(which[place]))
                        fill.values.append(before[at])
                        self.counts.filled += 1
                    else:
                        self.counts.missed += 1
                self._remember(key, values, int(slots[which[place]]))
        return fills

    def _before(self, oid: int, lsn: int, seq: int) -> Values:
        """The values of the update's old image, which came right before."""
        left = self._left.get(oid)
        return left[2] if left is not None and left[:2] == (lsn, seq - 1) else {}

    def _remember(self, key: Key, values: Values, slot: int) -> None:
        if not values:
            return
        self._entries[key] = values
        self._flags[slot] = True
        self._held += _size(values)
        while self._held > self._limit and self._entries:
            _, oldest = self._entries.popitem(last=False)
            self._held -= _size(oldest)

    def _forget(self, key: Key) -> Values:
        values = self._entries.pop(key, None)
        if values is None:
            return {}
        self._held -= _size(values)
        return values

    def _forget_all(self, oid: int) -> None:
        for key in [key for key in self._entries if key[0] == oid]:
            self._forget(key)


def _is_large(value: Any) -> bool:
    return value is not None and len(value) > _LEAST // 4  # characters: one takes up to four bytes


def _size(values: Values) -> int:
    return _OVERHEAD + sum(len(value) for value in values.values())


def _filled(table: SourceTable, rows: pa.Table, fills: dict[int, _Fill]) -> pa.Table:
    absent = absent_mask(rows, len(table.schema.columns))
    for at, fill in fills.items():
        found = pa.array(fill.values, rows[at].type)
        both = pa.chunked_array([*rows[at].chunks, found], type=rows[at].type)
        source = np.arange(rows.num_rows)
        source[fill.rows] = rows.num_rows + np.arange(len(found))
        rows = rows.set_column(at, rows.schema.field(at), both.take(pa.array(source)))
        absent[fill.rows, at] = False
    return rows.set_column(rows.num_columns - 1, rows.schema.field(ABSENT), absent_texts(absent))
