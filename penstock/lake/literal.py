"""An Arrow value as a Spark literal."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.relation.types import spark_type


def literal(value: pa.Scalar) -> Column:
    """The same value in Spark; times go through text, so that no client's time zone has a say."""
    kind = spark_type(value.type)
    if not value.is_valid:
        return F.lit(None).cast(kind)
    if pa.types.is_list(value.type):
        return F.array(*(literal(one) for one in value.values)).cast(kind)
    if pa.types.is_struct(value.type):
        return F.struct(*(literal(value[field.name]).alias(field.name) for field in value.type)).cast(kind)
    if pa.types.is_binary(value.type):
        return F.lit(value.as_py())
    if pa.types.is_timestamp(value.type):
        naive = value.cast(pa.timestamp("us")).as_py().isoformat(" ")
        return F.lit(naive if value.type.tz is None else f"{naive}+00:00").cast(kind)
    return F.lit(str(value.as_py())).cast(kind)
