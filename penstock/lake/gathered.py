"""The changes that a publish folds in: counted, and as the rows that each way of folding needs.

Where every segment's statistics say that it has inserts only, nothing is summed up: the rows go as they are. Changes
that fit into memory are summed there, without a Spark job; the rest by Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.catalog.relations import Relation
from penstock.lake.delta_writes import DELETE
from penstock.lake.inserts import inserts_only
from penstock.lake.parts import computed
from penstock.lake.reader import SMALL, Reader
from penstock.lake.zset_frames import expand, net, same, weighted
from penstock.zset import WEIGHT, among


class Gathered(Protocol):
    """Changes of a range: an update is one row in and one row out."""

    @property
    def new(self) -> int: ...

    @property
    def gone(self) -> int: ...

    def inserts(self) -> DataFrame:
        """The rows that come in, each as often as it does."""

    def weighted(self) -> DataFrame:
        """Rows with their summed weights."""

    def by_key(self) -> DataFrame:
        """One row per changed key: its new image, or what is left of a deleted one, with `_delete`."""


def gather(reader: Reader, relation: Relation, after: int, until: int) -> Gathered:
    found = reader.segments(relation, after, until)
    count = sum(one.rows for one in found)
    if count > SMALL and inserts_only(reader.home, found, after, until):
        return _Inserts(reader, relation, after, until, count)
    if reader.fits(found):
        return _in_memory(reader, relation, after, until)
    return _by_spark(reader, relation, after, until)


@dataclass(frozen=True)
class _Inserts:
    reader: Reader
    relation: Relation
    after: int
    until: int
    new: int
    gone: int = 0

    def inserts(self) -> DataFrame:
        return self.weighted().drop(WEIGHT)

    def weighted(self) -> DataFrame:
        names = list(self.relation.schema.names)
        return self.reader.changes(self.relation, self.after, self.until, names)

    def by_key(self) -> DataFrame:
        return self.inserts().withColumn(DELETE, F.lit(False))


@dataclass(frozen=True)
class _InMemory:
    reader: Reader
    relation: Relation
    rows: pa.Table
    new: int
    gone: int

    def inserts(self) -> DataFrame:
        if not self.relation.schema.key:
            return expand(self.weighted(), self.relation.schema.names)
        new = self.rows.filter(pc.greater(self.rows[WEIGHT], 0))
        return self.reader.frame(new, self.relation, list(self.relation.schema.names)).drop(WEIGHT)

    def weighted(self) -> DataFrame:
        return self.reader.frame(self.rows, self.relation, list(self.relation.schema.names))

    def by_key(self) -> DataFrame:
        """A deletion keeps its weight of −1, a new image its +1."""
        key = list(self.relation.schema.key)
        new = self.rows.filter(pc.greater(self.rows[WEIGHT], 0))
        gone = self.rows.filter(pc.less(self.rows[WEIGHT], 0))
        gone = gone.filter(pc.invert(among(_by_value(gone.select(key)), _by_value(new.select(key)))))
        frame = self.reader.frame(pa.concat_tables([new, gone]), self.relation, list(self.relation.schema.names))
        return frame.withColumn(DELETE, F.col(WEIGHT) < 0).drop(WEIGHT)


def _by_value(keys: pa.Table) -> pa.Table:
    """As Spark's MERGE compares them: there -0.0 is 0.0, and one row of the table may have one change."""
    for place, field in enumerate(keys.schema):
        if pa.types.is_floating(field.type):
            keys = keys.set_column(place, field, pc.add(keys[field.name], pa.scalar(0.0, field.type)))
    return keys


def _in_memory(reader: Reader, relation: Relation, after: int, until: int) -> _InMemory:
    rows = reader.changes_arrow(relation, after, until, list(relation.schema.names), keep=False)
    new = pc.sum(pc.max_element_wise(rows[WEIGHT], 0)).as_py() or 0
    return _InMemory(reader, relation, rows, new, new - (pc.sum(rows[WEIGHT]).as_py() or 0))


@dataclass(frozen=True)
class _BySpark:
    relation: Relation
    rows: DataFrame
    new: int
    gone: int

    def inserts(self) -> DataFrame:
        return expand(self.rows, self.relation.schema.names)

    def weighted(self) -> DataFrame:
        return self.rows

    def by_key(self) -> DataFrame:
        new, gone = self.rows.where(F.col(WEIGHT) > 0), self.rows.where(F.col(WEIGHT) < 0)
        deleted = gone.join(new, same(gone, new, list(self.relation.schema.key)), "left_anti")
        return new.unionByName(deleted).withColumn(DELETE, F.col(WEIGHT) < 0).drop(WEIGHT)


def _by_spark(reader: Reader, relation: Relation, after: int, until: int) -> _BySpark:
    names = list(relation.schema.names)
    rows = computed(reader.spark(), net(reader.changes(relation, after, until, names), names))
    counts = rows.agg(
        F.coalesce(F.sum(F.when(F.col(WEIGHT) > 0, F.col(WEIGHT))), F.lit(0)).alias("new"),
        F.coalesce(F.sum(F.when(F.col(WEIGHT) < 0, -F.col(WEIGHT))), F.lit(0)).alias("gone"),
    ).first()
    assert counts is not None
    return _BySpark(relation, rows, counts["new"], counts["gone"])


def rows_as_often(reader: Reader, relation: Relation, there: DataFrame, changed: DataFrame) -> DataFrame:
    """For a relation without a key: each changed row once to delete all its copies, and as often as it shall be there.

    `there` are the rows of the Delta table.
    """
    names = list(relation.schema.names)
    touched = there.join(F.broadcast(changed), same(there, changed, names), "left_semi")
    before = net(weighted(touched, names), names)
    after = expand(net(before.unionByName(changed), names), names)
    gone = changed.drop(WEIGHT).withColumn(DELETE, F.lit(True))
    return gone.unionByName(after.withColumn(DELETE, F.lit(False)))
