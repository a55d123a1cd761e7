"""The writes of a mirror: created, appended to, merged into, or written anew, each one stamped Delta commit.

Delta takes the stamp of a MERGE from the session's settings, so each has a Spark session of its own, and publishes of
different relations never see each other's. Rows are kept in key order where that is cheap, so that later merges and
key-range reads skip files and row groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession

from penstock.lake.delta_log import Stamp
from penstock.lake.session import adopt, quoted
from penstock.relation.schema import Schema

# Spark gives a file of one row group to one task: several files are scanned side by side, and skipped by key range.
ROWS_PER_FILE = 250_000

DELETE = "_delete"


def properties(*, compat: bool) -> dict[str, str]:
    """What a mirror is made with. `compat`: for engines that know neither deletion vectors nor column mapping."""
    return {
        "delta.enableDeletionVectors": str(not compat).lower(),
        "delta.logRetentionDuration": "interval 30 days",
    }


def stamped(spark: SparkSession, stamp: Stamp, *, once: bool = True) -> SparkSession:
    """A session whose Delta commits carry the stamp; `once`: Delta refuses a second one for the same position."""
    session = adopt(spark)
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", stamp.to_json())
    if once:
        session.conf.set("spark.databricks.delta.write.txnAppId", f"penstock:{stamp.owner}")
        session.conf.set("spark.databricks.delta.write.txnVersion", str(stamp.position))
    # The rows of a MERGE do not change while it reads them twice: they need not be kept aside first.
    session.conf.set("spark.databricks.delta.merge.materializeSource", "none")
    return session


def options(stamp: Stamp) -> dict[str, str]:
    return {
        "txnAppId": f"penstock:{stamp.owner}",
        "txnVersion": str(stamp.position),
        "userMetadata": stamp.to_json(),
    }


def replace(rows: DataFrame, folder: Path, stamp: Stamp, made_with: Mapping[str, str]) -> None:
    """All rows anew; `made_with` are the properties of a table that is created by it."""
    writer = rows.write.format("delta").mode("overwrite").options(**options(stamp), maxRecordsPerFile=ROWS_PER_FILE)
    writer.options(**made_with).save(str(folder))


def in_key_order(rows: DataFrame, schema: Schema) -> DataFrame:
    if not schema.key:
        return rows
    key = list(map(quoted, schema.key))
    return rows.repartitionByRange(*key).sortWithinPartitions(*key)


def append(rows: DataFrame, folder: Path, stamp: Stamp) -> None:
    writer = rows.write.format("delta").mode("append").options(**options(stamp), maxRecordsPerFile=ROWS_PER_FILE)
    writer.save(str(folder))


def merge_by_key(spark: SparkSession, source: DataFrame, folder: Path, schema: Schema, stamp: Stamp) -> None:
    """`source` has each changed key once: its new image, or its last one with `_delete`."""
    match = " AND ".join(_equal(schema, name) for name in schema.key)
    merge = _target(spark, folder, stamp).merge(source.alias("s"), match).whenMatchedDelete(f"s.{DELETE}")
    values = _values(schema)
    merge.whenMatchedUpdate(set=values).whenNotMatchedInsert(f"NOT s.{DELETE}", values=values).execute()


def merge_by_row(spark: SparkSession, source: DataFrame, folder: Path, schema: Schema, stamp: Stamp) -> None:
    """`source` has each changed row once with `_delete`, and without it as often as it shall be there."""
    match = " AND ".join([f"s.{DELETE}", *(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in schema.names)])
    merge = _target(spark, folder, stamp).merge(source.alias("s"), match).whenMatchedDelete()
    merge.whenNotMatchedInsert(f"NOT s.{DELETE}", values=_values(schema)).execute()


def _target(spark: SparkSession, folder: Path, stamp: Stamp):  # type: ignore[no-untyped-def]
    from delta.tables import DeltaTable

    return DeltaTable.forPath(stamped(spark, stamp), str(folder)).alias("t")


def _values(schema: Schema) -> dict[str, str | SparkColumn]:
    return {quoted(name): f"s.{quoted(name)}" for name in schema.names}


def _equal(schema: Schema, name: str) -> str:
    """Plain equality lets Delta skip files; only a key that may be NULL needs the null-safe one."""
    operator = "<=>" if schema.column(name).nullable else "="
    return f"t.{quoted(name)} {operator} s.{quoted(name)}"
