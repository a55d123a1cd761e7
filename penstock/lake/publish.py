"""The publisher folds a relation's changes into its Delta base, at its own pace and off the path of a refresh.

Steps: the Delta commit, stamped with the position it reaches, then the catalog. After a crash in between, the stamp
tells that the work is done, and only the catalog follows. `txnAppId` and `txnVersion` make a repeated Delta commit
impossible; Delta skips one silently, so no new version where one was expected is an error.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.catalog import relations
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Base, Relation
from penstock.cut import Frontier
from penstock.errors import PublishError
from penstock.failpoint import hit
from penstock.lake import delta_log, delta_schema
from penstock.lake.delta_log import Stamp
from penstock.lake.other_history import check_known
from penstock.lake.reader import Reader, expand, net, quoted, same
from penstock.lake.session import adopt
from penstock.zset import WEIGHT

How = Literal["created", "appended", "merged", "overwritten", "altered", "unchanged"]

# Past this share of changed rows a MERGE costs more than writing the table anew; for a small table always.
_OVERWRITE_RATIO = 0.3
_SMALL_TABLE = 20_000

# Spark gives a file of one row group to one task: several files are scanned side by side, and skipped by key range.
_ROWS_PER_FILE = 250_000

_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.logRetentionDuration": "interval 30 days",
}


@dataclass(frozen=True)
class Published:
    """What a publish did: the Delta table at `path` equals the relation at `frontier` in `version`."""

    name: str
    how: How
    path: str
    version: int
    frontier: Frontier
    rows: int
    seconds: float


def publish(reader: Reader, lease: Lease, relation: Relation, position: int, frontier: Frontier) -> Published:
    """Bring the Delta table of `relation` to `position`; nothing happens if it is there already."""
    started = time.monotonic()
    folder = reader.home.base(relation.folder)
    stamp = Stamp(relation.name, _owner(reader, relation), position, str(frontier), relation.version)
    base = _recovered(reader, lease, relation)
    how: How = "unchanged"
    if base is None or base.position < position:
        how, rows = _write(reader, relation, base, stamp)
        version = _committed(reader, relation, base, stamp, how)
        hit("publish.delta_committed")
        base = Base(position, version, delta_log.row_count(folder) if rows is None else rows, relation.version)
        _record(reader, lease, relation, base)
    return Published(
        relation.name, how, str(folder), base.delta_version, frontier, base.rows, time.monotonic() - started
    )


def _recovered(reader: Reader, lease: Lease, relation: Relation) -> Base | None:
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


def _committed(reader: Reader, relation: Relation, base: Base | None, stamp: Stamp, how: How) -> int:
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


def _write(reader: Reader, relation: Relation, base: Base | None, stamp: Stamp) -> tuple[How, int | None]:
    """How the table was brought to the stamp's position, and its rows where that is known without counting."""
    if base is None:
        return _replace(reader, relation, stamp, "created"), None
    same: How = "unchanged"
    if base.version != relation.version:
        between = replace(stamp, position=base.position, shape=0)
        if not delta_schema.follow(reader, relation, base, between):
            return _replace(reader, relation, stamp, "overwritten"), None
        same = "altered"
    if not reader.segments(relation, base.position, stamp.position):
        return same, base.rows
    names = list(relation.schema.names)
    changed = net(reader.changes(relation, base.position, stamp.position, names), names).localCheckpoint()
    counts = changed.agg(
        F.coalesce(F.sum(F.when(F.col(WEIGHT) > 0, F.col(WEIGHT))), F.lit(0)).alias("new"),
        F.coalesce(F.sum(F.when(F.col(WEIGHT) < 0, -F.col(WEIGHT))), F.lit(0)).alias("gone"),
    ).first()
    assert counts is not None
    rows = base.rows + counts["new"] - counts["gone"]
    if counts["new"] == counts["gone"] == 0:
        return same, rows
    if counts["gone"] == 0:
        _append(reader, relation, changed, stamp)
        return "appended", rows
    if rows <= _SMALL_TABLE or counts["new"] + counts["gone"] > _OVERWRITE_RATIO * base.rows:
        return _replace(reader, relation, stamp, "overwritten"), rows
    _merge(reader, relation, changed, stamp)
    return "merged", rows


def _replace(reader: Reader, relation: Relation, stamp: Stamp, how: How) -> How:
    rows = reader.rows(relation, stamp.position)
    if relation.schema.key:
        key = list(map(quoted, relation.schema.key))
        rows = rows.repartitionByRange(*key).sortWithinPartitions(*key)
    writer = rows.write.format("delta").mode("overwrite").options(**_options(stamp), maxRecordsPerFile=_ROWS_PER_FILE)
    writer = writer.options(**(_PROPERTIES if how == "created" else {"overwriteSchema": "true"}))
    writer.save(str(reader.home.base(relation.folder)))
    return how


def _append(reader: Reader, relation: Relation, changed: DataFrame, stamp: Stamp) -> None:
    rows = expand(changed, relation.schema.names)
    rows.write.format("delta").mode("append").options(**_options(stamp)).save(str(reader.home.base(relation.folder)))


def _options(stamp: Stamp) -> dict[str, str]:
    return {
        "txnAppId": f"penstock:{stamp.owner}",
        "txnVersion": str(stamp.position),
        "userMetadata": stamp.to_json(),
    }


def _merge(reader: Reader, relation: Relation, changed: DataFrame, stamp: Stamp) -> None:
    """MERGE takes its stamp from the session, so it gets a session of its own."""
    session = adopt(reader.spark())
    session.conf.set("spark.databricks.delta.write.txnAppId", f"penstock:{stamp.owner}")
    session.conf.set("spark.databricks.delta.write.txnVersion", str(stamp.position))
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", stamp.to_json())
    source = _by_key(changed, relation) if relation.schema.key else _by_row(reader, changed, relation)
    _run_merge(session, reader, relation, source)


def _by_key(changed: DataFrame, relation: Relation) -> DataFrame:
    """One row per changed key: its new image, or what is left of a deleted one."""
    key = list(relation.schema.key)
    new = changed.where(F.col(WEIGHT) > 0)
    gone = changed.where(F.col(WEIGHT) < 0)
    deleted = gone.join(new, same(gone, new, key), "left_anti")
    return new.withColumn("_delete", F.lit(False)).unionByName(deleted.withColumn("_delete", F.lit(True))).drop(WEIGHT)


def _by_row(reader: Reader, changed: DataFrame, relation: Relation) -> DataFrame:
    """Each changed row once to delete all its copies, and as often as it shall be there to insert."""
    names = list(relation.schema.names)
    base = reader.base(relation)
    assert base is not None
    there = reader.base_rows(relation, base)
    touched = there.join(F.broadcast(changed), same(there, changed, names), "left_semi")
    before = touched.groupBy(*map(quoted, names)).agg(F.count("*").alias(WEIGHT))
    after = expand(net(before.unionByName(changed), names), names)
    return (
        changed.drop(WEIGHT).withColumn("_delete", F.lit(True)).unionByName(after.withColumn("_delete", F.lit(False)))
    )


def _run_merge(session: SparkSession, reader: Reader, relation: Relation, source: DataFrame) -> None:
    from delta.tables import DeltaTable

    target = DeltaTable.forPath(session, str(reader.home.base(relation.folder)))
    names = list(map(quoted, relation.schema.names))
    values: dict[str, str | SparkColumn] = {name: f"s.{name}" for name in names}
    if relation.schema.key:
        match = " AND ".join(_equal(relation, name) for name in relation.schema.key)
        merge = target.alias("t").merge(source.alias("s"), match).whenMatchedDelete("s._delete")
        merge = merge.whenMatchedUpdate(set=values)
    else:
        match = " AND ".join(["s._delete", *(f"t.{name} <=> s.{name}" for name in names)])
        merge = target.alias("t").merge(source.alias("s"), match).whenMatchedDelete()
    merge.whenNotMatchedInsert("NOT s._delete", values=values).execute()


def _equal(relation: Relation, name: str) -> str:
    """Plain equality lets Delta skip files; only a key that may be NULL needs the null-safe one."""
    operator = "<=>" if relation.schema.column(name).nullable else "="
    return f"t.{quoted(name)} {operator} s.{quoted(name)}"
