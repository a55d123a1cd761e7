"""Z-sets as Spark frames: rows with a weight, and what is done to them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import cast

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, StructType

from penstock.catalog.relations import Relation
from penstock.lake.literal import literal
from penstock.lake.session import quoted
from penstock.relation.schema import Schema
from penstock.relation.translation import Translation
from penstock.zset import WEIGHT


def weighted(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    return rows.select(*map(quoted, columns), F.lit(1).cast("bigint").alias(WEIGHT))


def translated(way: Translation, columns: Sequence[str]) -> list[SparkColumn]:
    """Columns of the newer shape over a frame in the older one."""
    made = []
    for name in columns:
        one = way.origins[name]
        value = literal(one.column.older) if one.source is None else F.col(quoted(one.source.name))
        made.append((value if name in way.identical else value.cast(one.column.spark)).alias(name))
    return made


def ddl(schema: Schema, columns: Sequence[str]) -> str:
    """The Spark schema of weighted rows."""
    own = [f"{quoted(name)} {schema.column(name).spark}" for name in columns]
    return ", ".join([*own, f"{WEIGHT} bigint"])


@lru_cache(maxsize=1024)
def struct(ddl: str) -> StructType:
    """Spark's own reading of a schema: each takes several calls into the JVM."""
    return cast(StructType, StructType.fromDDL(ddl))


def net(changed: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Equal rows summed, what cancels dropped. Spark groups -0.0 with 0.0 and writes the latter; here they are two
    rows, as they are in a segment, and to whoever looks for one by its key."""
    fields = enumerate(changed.schema)
    marks = {one.name: f"_minus_{at}" for at, one in fields if one.name in columns and _is_floating(one.dataType)}
    signs = [_is_minus_zero(name).alias(mark) for name, mark in marks.items()]
    summed = changed.groupBy(*map(quoted, columns), *signs).agg(F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)
    if not marks:
        return summed
    own = [_with_sign(name, marks[name]) if name in marks else F.col(quoted(name)) for name in columns]
    return summed.select(*own, WEIGHT)


def _is_floating(kind: DataType) -> bool:
    return isinstance(kind, DoubleType | FloatType)


def _with_sign(name: str, mark: str) -> SparkColumn:
    value = F.col(quoted(name))
    return F.when(F.col(mark), -value).otherwise(value).alias(name)


def _is_minus_zero(name: str) -> SparkColumn:
    """Its sign is nowhere but in its text, which is made of zeros only."""
    value = F.col(quoted(name))
    return (value == 0) & (value.cast("string") == "-0.0")


def expand(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Each row as often as its weight says."""
    copies = F.explode(F.sequence(F.lit(1), F.col(WEIGHT).cast("int")))
    return rows.where(F.col(WEIGHT) > 0).select(*map(quoted, columns), copies.alias("_copy")).drop("_copy")


def same(left: DataFrame, right: DataFrame, columns: Sequence[str]) -> SparkColumn:
    """Equal on all columns, NULL equal to NULL."""
    return reduce(lambda a, b: a & b, [left[quoted(n)].eqNullSafe(right[quoted(n)]) for n in columns])


def merge_by_key(plain: DataFrame, changed: DataFrame, relation: Relation) -> DataFrame:
    names = list(relation.schema.names)
    new = changed.where(F.col(WEIGHT) > 0).select(*map(quoted, names))
    return without(plain, changed.where(F.col(WEIGHT) < 0), relation).select(*map(quoted, names)).unionByName(new)


def without(rows: DataFrame, gone: DataFrame, relation: Relation) -> DataFrame:
    """The rows whose key is not among those of `gone`. Plain equality, where no key is NULL, is the faster join."""
    key = relation.schema.key
    keys = gone.select(*map(quoted, key))
    same_key = reduce(
        lambda a, b: a & b,
        [
            rows[quoted(name)].eqNullSafe(keys[quoted(name)])
            if relation.schema.column(name).nullable
            else rows[quoted(name)] == keys[quoted(name)]
            for name in key
        ],
    )
    return rows.join(F.broadcast(keys), same_key, "left_anti")


def merge_by_row(plain: DataFrame, changed: DataFrame, relation: Relation) -> DataFrame:
    names = list(relation.schema.names)
    kept = plain.join(F.broadcast(changed), same(plain, changed, names), "left_anti").select(*map(quoted, names))
    touched = plain.join(F.broadcast(changed), same(plain, changed, names), "left_semi")
    counted = net(weighted(touched, names), names)
    return kept.unionByName(expand(net(counted.unionByName(changed.select(*map(quoted, names), WEIGHT)), names), names))
