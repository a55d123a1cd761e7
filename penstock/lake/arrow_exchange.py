"""Arrow tables into Spark and out of it, with as few calls to the JVM as it takes.

`createDataFrame` and `toArrow` first ask for settings, each by several calls, and that takes longer than handing over a
few rows. Those settings are known: they are of our own sessions (see `session`). Through Spark Connect there are no
such calls, and the public way is taken.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

_BATCH = 10_000  # rows of a partition, as many as Spark takes by default
_NTZ, _LARGE_TYPES = False, False  # times are instants; texts of a batch fit into 2 GB


def to_spark(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """A frame of rows, whose size Spark's planner knows."""
    if is_remote():
        return spark.createDataFrame(rows, schema=schema)
    made: DataFrame = spark._create_from_arrow_table(rows, schema, "UTC", _NTZ, _LARGE_TYPES, _BATCH)
    return made


def to_arrow(frame: DataFrame) -> pa.Table:
    """All rows, in the types that Spark gives them."""
    if is_remote():
        return frame.toArrow()
    return pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False))  # type: ignore[operator]
