"""Small segments put together: same rows, same positions, fewer files.

Every row keeps its position, so that any frontier inside is read as before. For a stream table, whose segments have one
round each, the rows get it as `_lsn`. Neighbours only, of one schema version, so that positions stay in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import StorageDamaged
from penstock.relation.description import file_checksum
from penstock.relation.home import Home
from penstock.relation.rotation import ROTATION, Rotation
from penstock.relation.segment import Segment, SegmentWriter
from penstock.zset import ABSENT

LEAST = 8  # files that are worth the work
_POSITION = "_lsn"


def small(rotation: Rotation = ROTATION) -> int:
    """Bytes under which a segment is put together with others."""
    return rotation.bytes // 4


def plan(
    found: Sequence[Segment], base: int = -1, rotation: Rotation = ROTATION, least: int = LEAST
) -> list[list[Segment]]:
    """Groups of neighbours, in order of position, to be put together.

    What is in the base is not put together with what is not, nor one day with another: they will be dropped apart.
    A group leaves out what is larger than all that follows in it: so each row is rewritten about as often as the
    changelog doubles, and not with every small segment that comes after it.
    """
    groups = []
    ordered = sorted(found, key=lambda one: (one.high, one.low))
    for _, run in groupby(
        ordered, key=lambda one: (one.version, one.bytes < small(rotation), one.high > base, _day(one))
    ):
        groups += _cut(list(run), rotation)
    chosen = [_without_large_heads(group) for group in groups if group[0].bytes < small(rotation)]
    return [group for group in chosen if len(group) >= least]


def _day(one: Segment) -> date | None:
    return None if one.last_time is None else one.last_time.date()


def _cut(run: list[Segment], rotation: Rotation) -> list[list[Segment]]:
    """Groups that fit into one file each."""
    groups: list[list[Segment]] = [[]]
    rows = size = 0
    for one in run:
        if groups[-1] and rotation.full(rows + one.rows, size + one.bytes):
            groups.append([])
            rows = size = 0
        groups[-1].append(one)
        rows, size = rows + one.rows, size + one.bytes
    return groups


def _without_large_heads(group: list[Segment]) -> list[Segment]:
    rest = sum(one.bytes for one in group)
    for place, one in enumerate(group):
        rest -= one.bytes
        if one.bytes <= rest:
            return group[place:]
    return []


def merge(home: Home, writer: SegmentWriter, group: Sequence[Segment], rotation: Rotation = ROTATION) -> list[Segment]:
    """Write the rows of neighbours as one segment (more, if it comes out too large); each file is checked first."""
    file = None
    try:
        for one in group:
            check(home, one)
            rows = with_positions(pq.read_table(home.path(one.path), partitioning=None), one)
            if file is None:
                file = writer.file(rows.schema, rotation=rotation)
            file.write(rows)
        assert file is not None
        return [_timed(one, group) for one in file.finish(None, version=group[0].version)]
    except BaseException:
        if file is not None:
            file.abandon()
        raise


def _timed(one: Segment, group: Sequence[Segment]) -> Segment:
    """Rows of a stream table have no commit time of their own."""
    if one.last_time is not None:
        return one
    times = [time for each in group for time in (each.first_time, each.last_time) if time is not None]
    return replace(one, first_time=min(times, default=None), last_time=max(times, default=None))


def with_positions(rows: pa.Table, one: Segment) -> pa.Table:
    """A segment of one round gets it as a column; that nothing is absent in a settled one goes without saying."""
    rows = rows.drop_columns([ABSENT]) if ABSENT in rows.column_names else rows
    if _POSITION in rows.column_names:
        return rows
    assert one.low == one.high
    return rows.append_column(pa.field(_POSITION, pa.int64()), pa.repeat(pa.scalar(one.low, pa.int64()), rows.num_rows))


def check(home: Home, one: Segment) -> None:
    """Raise if the file is not what was written."""
    path = home.path(one.path)
    if not path.exists():
        raise StorageDamaged(f"the segment {path} is gone", hint=_HINT)
    if one.checksum is not None and file_checksum(path) != one.checksum:
        raise StorageDamaged(f"the segment {path} is not as it was written", hint=_HINT)


_HINT = "Restore it from a backup of the home, or re-sync the table. Do not change files in the changelog."
