"""OPTIMIZE and VACUUM of a Delta table, under the lease of its publisher, each commit stamped like a publish.

OPTIMIZE changes no row, so the table stays at its position under a new version; after a crash in between the stamp
tells that, as with a publish. Small files and files with many deleted rows are put together; where most of the table
lies in files of overlapping key ranges, it is written anew in key order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from penstock.catalog import bases
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Base, Relation
from penstock.failpoint import hit
from penstock.lake.delta_writes import ROWS_PER_FILE, stamped
from penstock.lake.publish import latest_stamp, recovered
from penstock.lake.reader import Reader
from penstock.lake.session import quoted

# So many small files, or this share of deleted rows, make reading dearer than putting them together once.
_SMALL_FILES = 16
_DELETED = 0.2
# A file is wide if its keys span more than this part of the table's; in order again when half of the rows are in such.
_WIDE = 0.25
_UNORDERED = 0.5
_LEAST_BYTES = 1 << 20  # of a file, however small its rows are


@dataclass(frozen=True)
class File:
    """A live file: rows and bytes in it, and the range of the key's first column where that is a number."""

    rows: int
    bytes: int
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Optimized:
    version: int
    reason: str


Work = Literal["compact", "order"]


def worth(files: Sequence[File], deleted: int, *, force: bool = False) -> tuple[Work, str] | None:
    """What should be done to a table of these files, of whose rows some are deleted; None for nothing.

    >>> worth([File(10, 100)] * 16, 0)
    ('compact', '16 small files, 0 of 160 rows deleted')
    >>> worth([File(250_000, 100, n, n + 900_000) for n in range(4)], 0)
    ('order', '1,000,000 of 1,000,000 rows in files of overlapping key ranges')
    >>> worth([File(250_000, 100, n * 250_000, n * 250_000 + 249_999) for n in range(8)], 0)
    """
    rows, small = sum(one.rows for one in files), sum(1 for one in files if one.rows < ROWS_PER_FILE // 4)
    wide = sum(one.rows for one in _wide(files))
    if rows >= 2 * ROWS_PER_FILE and wide > _UNORDERED * rows:
        return "order", f"{wide:,} of {rows:,} rows in files of overlapping key ranges"
    if small >= _SMALL_FILES or deleted > _DELETED * rows or (force and (small > 1 or deleted)):
        return "compact", f"{small} small files, {deleted:,} of {rows:,} rows deleted"
    return None


def _wide(files: Sequence[File]) -> list[File]:
    ranges = [(one.low, one.high) for one in files if one.low is not None and one.high is not None]
    if len(ranges) < len(files) or len(files) < 2:
        return []
    span = max(high for _, high in ranges) - min(low for low, _ in ranges)
    return [one for one, (low, high) in zip(files, ranges, strict=True) if high - low > _WIDE * span]


def optimize(reader: Reader, lease: Lease, relation: Relation, *, force: bool = False) -> Optimized | None:
    """Do what is worth it; `force` puts together whatever small files and deleted rows there are."""
    base = recovered(reader, lease, relation)
    if base is None:
        return None
    files = _files(reader, relation, base)
    chosen = worth(files, reader.base_files(relation, base).hidden_rows, force=force)
    if chosen is None:
        return None
    work, reason = chosen
    _run(reader, relation, base, work, files)
    hit("optimize.delta_committed")
    after = recovered(reader, lease, relation)
    assert after is not None
    return None if after.delta_version == base.delta_version else Optimized(after.delta_version, reason)


def _run(reader: Reader, relation: Relation, base: Base, work: Work, files: Sequence[File]) -> None:
    from delta.tables import DeltaTable as Table

    session = _session(reader, relation, base)
    rows, size = sum(one.rows for one in files), sum(one.bytes for one in files)
    target = max(_LEAST_BYTES, size * ROWS_PER_FILE // max(rows, 1))
    session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(target))
    session.conf.set("spark.databricks.delta.optimize.minFileSize", str(target // 4))
    table = Table.forPath(session, str(reader.home.base(relation.folder))).optimize()
    if work == "order":
        table.executeZOrderBy(*map(quoted, relation.schema.key))
    else:
        table.executeCompaction()


def _session(reader: Reader, relation: Relation, base: Base) -> SparkSession:
    return stamped(reader.spark(), latest_stamp(reader, relation, base), once=False)


def _files(reader: Reader, relation: Relation, base: Base) -> list[File]:
    table = DeltaTable(str(reader.home.base(relation.folder)), version=base.delta_version)
    key = relation.schema.key[0] if relation.schema.key else ""
    found = []
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        low, high = _number(row.get(f"min.{key}")), _number(row.get(f"max.{key}"))
        found.append(File(row["num_records"] or 0, row["size_bytes"], low, high))
    return found


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def vacuum(reader: Reader, lease: Lease, relation: Relation, keep: timedelta) -> None:
    """Delete files that no version of the last `keep` needs, after forgetting the versions they belonged to."""
    from delta.tables import DeltaTable as Table

    base = recovered(reader, lease, relation)
    if base is None:
        return
    with reader.catalog.commit(lease, None, "vacuum") as commit:
        bases.forget_before(commit, relation.id, datetime.now(UTC) - keep)
    session = _session(reader, relation, base)
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "4")  # 10,000 tasks to list a folder
    Table.forPath(session, str(reader.home.base(relation.folder))).vacuum(keep.total_seconds() / 3600)
    recovered(reader, lease, relation)
