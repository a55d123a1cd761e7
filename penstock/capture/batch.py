"""What a poll delivers: rows of whole transactions by table, or one part of a transaction that is too large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from penstock.capture.discover import SourceTable
from penstock.capture.fields import Ints
from penstock.capture.rows import Rows, op_strings
from penstock.lsn import Lsn
from penstock.zset import RAW_FIELDS


@dataclass(frozen=True)
class Batch:
    """Change rows by table name. `cut` is the end of the last whole transaction delivered with or before it.

    All rows of a table in one batch have one shape, which `shapes` gives.
    """

    tables: dict[str, pa.Table]
    complete: bool
    cut: Lsn
    snapshot: bool = False
    shapes: dict[str, SourceTable] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables.values())

    def to_arrow(self) -> dict[str, pa.Table]:
        """A table per source table that has rows here, with the columns of `Schema.arrow_raw()`."""
        return self.tables


@dataclass(frozen=True)
class Stamp:
    """The commits of rows, a line per row; `xids` is None for a copy."""

    lsns: Ints
    times: Ints  # microseconds since 1970
    xids: Ints | None


def stamped(table: SourceTable, rows: Rows, stamp: Stamp) -> pa.Table:
    """Rows with their commits, as `Schema.arrow_raw()` has them."""
    count = len(rows.weights)
    xids = pa.nulls(count, pa.int64()) if stamp.xids is None else _ints(stamp.xids)
    beside = [
        _ints(rows.weights),
        op_strings(rows.ops),
        _ints(stamp.lsns),
        _ints(stamp.times).view(RAW_FIELDS[3].type),
        xids,
        _ints(rows.seqs),
        rows.absent,
    ]
    return pa.Table.from_arrays([*rows.columns, *beside], schema=table.schema.arrow_raw())


def sliced(rows: Rows, start: int, stop: int) -> Rows:
    """The rows from `start` up to `stop`, nothing copied."""
    length = stop - start
    return Rows(
        tuple(column.slice(start, length) for column in rows.columns),
        rows.weights[start:stop],
        rows.ops[start:stop],
        rows.seqs[start:stop],
        rows.absent.slice(start, length),
    )


def picked(rows: Rows, which: Ints) -> Rows:
    """Chosen rows, copied."""
    return Rows(
        tuple(column.take(pa.array(which)) for column in rows.columns),
        rows.weights[which],
        rows.ops[which],
        rows.seqs[which],
        rows.absent.take(pa.array(which)),
    )


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows behind each other."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        tuple(pa.concat_arrays(columns) for columns in zip(*(part.columns for part in parts), strict=True)),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.ops for part in parts]),
        np.concatenate([part.seqs for part in parts]),
        pa.concat_arrays([part.absent for part in parts]),
    )


def together(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _ints(values: Ints) -> pa.Array:
    return pa.array(np.ascontiguousarray(values), pa.int64())
