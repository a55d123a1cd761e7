"""The publisher folds a relation's changes into its Delta base, at its own pace and off the path of a refresh.

Steps: the Delta commit, stamped with the position it reaches, then the catalog. After a crash in between, the stamp
tells that the work is done, and only the catalog follows. `txnAppId` and `txnVersion` make a repeated Delta commit
impossible; Delta skips one silently, so no new version where one was expected is an error.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.catalog import relations, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Base, Relation
from penstock.cut import Frontier
from penstock.errors import PublishError
from penstock.failpoint import hit
from penstock.lake import adoption, delta_log, delta_schema, delta_writes, rewriting
from penstock.lake.delta_log import Stamp
from penstock.lake.folding import FEW_ROWS, Choice, Fold, choose
from penstock.lake.gathered import gather, rows_as_often
from penstock.lake.inserts import inserts_only, leading_inserts
from penstock.lake.key_order import in_order
from penstock.lake.other_history import check_known
from penstock.lake.reader import IN_MEMORY_BYTES, SMALL, Reader
from penstock.zset import WEIGHT

_ANEW = {"overwriteSchema": "true"}


@dataclass(frozen=True)
class Published:
    """What a publish did: the Delta table at `path` equals the relation at `frontier` in `version`."""

    name: str
    how: Fold
    path: str
    version: int
    frontier: Frontier
    rows: int
    seconds: float
    reason: str


def publish(
    reader: Reader, lease: Lease, relation: Relation, position: int, frontier: Frontier, *, compat: bool = False
) -> Published:
    """Bring the Delta table of `relation` to `position`; nothing happens if it is there already.

    `compat`: a table that is created now can be read by engines that know no deletion vectors.
    """
    started = time.monotonic()
    folder = reader.home.base(relation.folder)
    stamp = Stamp(relation.name, _owner(reader, relation), position, str(frontier), relation.version)
    base = recovered(reader, lease, relation)
    choice = Choice("unchanged", "nothing was captured since the last publish")
    created = base is None
    if base is None and not compat:
        base = _begun(reader, lease, relation, stamp)
    if base is None or base.position < position:
        choice, rows = _write(reader, relation, base, stamp, delta_writes.properties(compat=compat))
        version = _committed(reader, relation, base, stamp, choice.how)
        hit("publish.delta_committed")
        base = Base(position, version, delta_log.row_count(folder) if rows is None else rows, relation.version)
        _record(reader, lease, relation, base)
    if created:
        choice = choose(None, 0, 0)
    if relation.source and base.position > position:  # published past what was asked for, and never taken back
        frontier = Frontier({relation.source: base.position})
    seconds = time.monotonic() - started
    return Published(
        relation.name, choice.how, str(folder), base.delta_version, frontier, base.rows, seconds, choice.reason
    )


def recovered(reader: Reader, lease: Lease, relation: Relation) -> Base | None:
    """The newest base, after adopting one that a crash kept out of the catalog."""
    base = reader.base(relation)
    if base is None:
        _remove_remains(reader, relation)
    since = base.delta_version if base else -1
    found = delta_log.latest(reader.home.base(relation.folder), _owner(reader, relation), since=since)
    if found is None:
        if base:
            raise PublishError(
                f"the Delta table of {relation.name} is gone from {reader.home.base(relation.folder)}",
                hint="Restore it from a backup of the home, or re-sync the table.",
            )
        return None
    if found.version == since or (base and not found.stamp.shape):
        return base
    check_known(reader.catalog, relation, found.stamp)
    rows = (base.rows if base else 0) + _net_rows(reader, relation, base, found.stamp.position)
    adopted = Base(found.stamp.position, found.version, rows, found.stamp.shape)
    _record(reader, lease, relation, adopted)
    return adopted


def latest_stamp(reader: Reader, relation: Relation, base: Base) -> Stamp:
    """The stamp of the table as it is, for commits that change no row: the base may have moved without one."""
    found = delta_log.latest(reader.home.base(relation.folder), _owner(reader, relation), since=base.delta_version)
    assert found is not None
    if relation.source:
        frontier = Frontier({relation.source: base.position})
    else:
        frontier = stream_tables.frontier_at(reader.catalog, relation.id, base.position) or Frontier()
    return replace(found.stamp, position=base.position, frontier=str(frontier), shape=base.version)


def _owner(reader: Reader, relation: Relation) -> str:
    return f"{reader.catalog.identity}/{relation.id}"


def _remove_remains(reader: Reader, relation: Relation) -> None:
    """A crash may have kept the Delta table of a dropped relation of this catalog, whose name is used again."""
    folder = reader.home.base(relation.folder)
    left = delta_log.owner(folder)
    if left is None or left == _owner(reader, relation):
        return
    catalog, _, identifier = left.partition("/")
    if catalog == reader.catalog.identity and not relations.by_id(reader.catalog, [int(identifier)]):
        shutil.rmtree(folder)


def _record(reader: Reader, lease: Lease, relation: Relation, base: Base) -> None:
    with reader.catalog.commit(lease, None, "publish") as commit:
        relations.record_base(commit, relation.id, base)


def _committed(reader: Reader, relation: Relation, base: Base | None, stamp: Stamp, how: Fold) -> int:
    """The version our write made, or the base's own where nothing had to be written."""
    if how == "unchanged" and base:
        return base.delta_version
    since = base.delta_version if base else -1
    found = delta_log.latest(reader.home.base(relation.folder), stamp.owner, since=since)
    if found is not None and how == "altered":
        return found.version
    if found is None or found.version <= since or found.stamp.position != stamp.position:
        raise PublishError(
            f"Delta made no commit for {relation.name} at position {stamp.position}",
            hint="Another process may have published it at the same time. Run the publish again.",
        )
    return found.version


def _net_rows(reader: Reader, relation: Relation, base: Base | None, position: int) -> int:
    names = list(relation.schema.names)
    after = base.position if base else -1
    total = reader.changes(relation, after, position, names).agg(F.sum(WEIGHT)).first()
    return int(total[0] or 0) if total else 0


def _write(
    reader: Reader, relation: Relation, base: Base | None, stamp: Stamp, made_with: Mapping[str, str]
) -> tuple[Choice, int | None]:
    """How the table was brought to the stamp's position, and its rows where that is known without counting."""
    folder, schema = reader.home.base(relation.folder), relation.schema
    if base is None:
        _replace(reader, relation, None, stamp, made_with)
        return choose(None, 0, 0), None
    altered = base.version != relation.version
    if altered and not delta_schema.follow(reader, relation, base, replace(stamp, position=base.position, shape=0)):
        _replace(reader, relation, base, stamp, _ANEW)
        return Choice("overwritten", "its columns changed in a way that needs new files"), None
    if not altered and (rows := _appended_as_they_are(reader, relation, base, stamp)):
        return choose(base.rows, rows, 0), base.rows + rows
    changed = gather(reader, relation, base.position, stamp.position)
    after = base.rows + changed.new - changed.gone
    choice = choose(base.rows, changed.new, changed.gone)
    if altered and choice.how == "unchanged":
        choice = Choice("altered", "its columns changed, and no row")
    match choice.how:
        case "appended":
            delta_writes.append(changed.inserts(), folder, stamp)
        case "overwritten" if altered or not _rewritten(reader, relation, base, stamp, after):
            _replace(reader, relation, base, stamp, _ANEW)
        case "merged" if schema.key:
            delta_writes.merge_by_key(reader.spark(), changed.by_key(), folder, schema, stamp)
        case "merged":
            there = reader.base_rows(relation, base)
            source = rows_as_often(reader, relation, there, changed.weighted())
            delta_writes.merge_by_row(reader.spark(), source, folder, schema, stamp)
    return choice, after


def _begun(reader: Reader, lease: Lease, relation: Relation, stamp: Stamp) -> Base | None:
    """A new table from the copy's own files, at the position up to which there are inserts alone; what came after is
    folded in like any other changes. None where the rows must be written: in another order, another form, or netted.
    """
    folder, key = reader.home.base(relation.folder), relation.schema.key
    found = reader.segments(relation, -1, stamp.position)
    first = leading_inserts(reader.home, found, stamp.position)
    files, rows = [reader.home.path(one.path) for one in first], sum(one.rows for one in first)
    position = stamp.position
    if len(first) < len(found):
        position = max((one.high for one in first), default=-1)
        if relation.source is None or position >= found[len(first)].low or 2 * rows < sum(one.rows for one in found):
            return None
        stamp = replace(stamp, position=position, frontier=str(Frontier({relation.source: position})))
    if any(one.version != relation.version for one in first) or not adoption.fits(relation.schema, files):
        return None
    if key and rows > delta_writes.ROWS_PER_FILE and not in_order(files, key[0]):
        return None
    try:
        adoption.create(folder, relation.schema, files, stamp, delta_writes.properties(compat=False))
    except adoption.CannotLink:
        return None
    hit("publish.delta_committed")
    base = Base(position, 0, rows, relation.version)
    _record(reader, lease, relation, base)
    return base


def _appended_as_they_are(reader: Reader, relation: Relation, base: Base, stamp: Stamp) -> int | None:
    """Segments of inserts alone become files of the table; how many rows these are, None if it cannot be done so."""
    folder = reader.home.base(relation.folder)
    found = reader.segments(relation, base.position, stamp.position)
    files = [reader.home.path(one.path) for one in found]
    if (
        not found
        or any(one.version != relation.version for one in found)
        or not inserts_only(reader.home, found, base.position, stamp.position)
        or not adoption.takes_files(folder, base.delta_version, relation.schema, files)
        or not adoption.fits(relation.schema, files)
    ):
        return None
    try:
        adoption.append(folder, base.delta_version, relation.schema, files, stamp)
    except adoption.CannotLink:
        return None
    return sum(one.rows for one in found)


def _replace(reader: Reader, relation: Relation, base: Base | None, stamp: Stamp, made_with: Mapping[str, str]) -> None:
    """All rows at the stamp's position, in key order where they are of several files."""
    rows = _in_one_file(reader, relation, base, stamp.position)
    if rows is None:
        rows = _in_key_order(reader, relation, base, stamp.position)
    delta_writes.replace(rows, reader.home.base(relation.folder), stamp, made_with)


def _in_one_file(reader: Reader, relation: Relation, base: Base | None, position: int) -> DataFrame | None:
    """A small table is put together in memory: to Spark it would be a dozen jobs, each dearer than its rows."""
    found = reader.segments(relation, base.position if base else -1, position)
    count = sum(one.rows for one in found) + (base.rows if base else 0)
    if count > SMALL or not _fits(reader, relation, base, position):
        return None
    rows = reader.rows_arrow(relation, position)
    weighted = rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))
    return reader.frame(weighted, relation, list(relation.schema.names)).drop(WEIGHT).coalesce(1)


def _rewritten(reader: Reader, relation: Relation, base: Base, stamp: Stamp, after: int) -> bool:
    """Whether a table that will have `after` rows could be written anew without Spark."""
    if max(base.rows, after) > FEW_ROWS or not _fits(reader, relation, base, stamp.position):
        return False
    rows = reader.rows_arrow(relation, stamp.position)
    return rewriting.rewrite(reader.home.base(relation.folder), base.delta_version, relation.schema, rows, stamp)


def _fits(reader: Reader, relation: Relation, base: Base | None, position: int) -> bool:
    """Whether the files that make up the table at `position` may be put together in memory."""
    found = reader.segments(relation, base.position if base else -1, position)
    there = reader.base_files(relation, base).paths if base else []
    return reader.fits(found) and sum(Path(file).stat().st_size for file in there) <= IN_MEMORY_BYTES


def _in_key_order(reader: Reader, relation: Relation, base: Base | None, position: int) -> DataFrame:
    """A table that was copied as it lies in its pages may be so already."""
    found = reader.segments(relation, -1, position) if base is None else []
    if base is None and reader.fits(found):
        rows = gather(reader, relation, -1, position).inserts()
    else:
        rows = reader.rows(relation, position)
    key = relation.schema.key
    if not key or (base is None and in_order([reader.home.path(one.path) for one in found], key[0])):
        return rows
    return delta_writes.in_key_order(rows, relation.schema)


def forecast(reader: Reader, relation: Relation, position: int) -> Choice:
    """What a publish to `position` would do, from what is known without reading a row: changes may still cancel."""
    base = reader.base(relation)
    if base is None:
        return choose(None, 0, 0)
    found = reader.segments(relation, base.position, position)
    count = sum(one.rows for one in found)
    if not found or inserts_only(reader.home, found, base.position, position):
        return choose(base.rows, count, 0)
    return choose(base.rows, count - count // 2, count // 2)
