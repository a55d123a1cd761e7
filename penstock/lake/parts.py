"""Queries that others share, computed once.

Spark 4.2 keeps what it inferred of a checkpointed query (its constraints), and cannot find the columns of that any more
when a union over it is optimized ("key not found"). So nothing is inferred while one is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

_INFERRED = "spark.sql.constraintPropagation.enabled"


def computed(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The rows of a frame of this session, for as long as anything reads them."""
    before = str(spark.conf.get(_INFERRED, "true"))
    if before == "false":
        return frame.localCheckpoint()
    spark.conf.set(_INFERRED, "false")
    try:
        return frame.localCheckpoint()
    finally:
        spark.conf.set(_INFERRED, before)


@contextmanager
def computed_before(spark: SparkSession, parts: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Tables of these names with the rows of these queries, each over those before it; a plan made meanwhile keeps
    what it reads of them."""
    made = list[str]()
    try:
        for name, sql in parts:
            computed(spark, spark.sql(sql)).createOrReplaceTempView(name)
            made.append(name)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(name)
