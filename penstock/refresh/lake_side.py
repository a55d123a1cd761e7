"""A relation at a position as verify sees it: a sum of weighted rows, read file by file without Spark and never merged.

Sums of hashes do not mind a row that is there with +1 in the base and with −1 in the changelog. A row that is left with
a weight below zero would be hidden by merging; here it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.catalog.relations import Relation
from penstock.lake.reader import Reader
from penstock.refresh.bucket_sums import BucketSums
from penstock.refresh.row_hash import row_hashes
from penstock.refresh.verification import Row
from penstock.relation.schema import Column
from penstock.zset import WEIGHT, consolidate

Part = Callable[[], pa.Table]
T = TypeVar("T")


@dataclass(frozen=True)
class LakeSide:
    """What is stored of `relation` at `position`; rows are told apart by `hashed`, some or all of its columns."""

    reader: Reader
    relation: Relation
    position: int
    hashed: tuple[Column, ...]
    threads: int

    def about(self) -> int:
        """How many rows there may be: known without reading any."""
        base = self.reader.base(self.relation)
        since = base.position if base else -1
        return (base.rows if base else 0) + self.reader.changed_rows(self.relation, since, self.position)

    def sums(self, buckets: int) -> BucketSums:
        names = [column.name for column in self.hashed]
        total = BucketSums.empty(buckets)

        def one(part: Part) -> BucketSums:
            rows = part()
            sums = BucketSums.empty(buckets)
            sums.add_rows(row_hashes(rows, self.hashed), _weights(rows))
            return sums

        for sums in self._each(one, names):
            total.add(sums)
        return total

    def rows(self, buckets: Sequence[int], of: int) -> list[tuple[Row, int]]:
        """The rows of some buckets, each with how often it is there: less than zero where more was taken than given."""
        names = list(self.relation.schema.names)
        wanted = np.zeros(of, bool)
        wanted[list(buckets)] = True

        def one(part: Part) -> pa.Table:
            rows = part()
            mine = row_hashes(rows, self.hashed) & np.uint64(of - 1)
            return rows.filter(pa.array(wanted[mine.astype(np.int64)]))

        parts = list(self._each(one, names))
        if not parts:
            return []
        left = consolidate(pa.concat_tables(parts), names)
        weights = left[WEIGHT].to_pylist()
        return [
            (tuple(row.values()), weight) for row, weight in zip(left.select(names).to_pylist(), weights, strict=True)
        ]

    def _each(self, do: Callable[[Part], T], names: Sequence[str]) -> Iterable[T]:
        if self.threads == 1:
            yield from map(do, self._parts(names))
            return
        with ThreadPoolExecutor(self.threads, thread_name_prefix="penstock-verify") as pool:
            yield from pool.map(do, list(self._parts(names)))

    def _parts(self, names: Sequence[str]) -> Iterator[Part]:
        """Each gives some rows of `names` with their weight."""
        base = self.reader.base(self.relation)
        since = base.position if base else -1
        if base is not None:
            way = self.reader.from_version(self.relation, base.version)
            then = way.old.arrow() if not way.sources(names) else way.old.arrow(way.sources(names))
            for part in self.reader.base_files(self.relation, base).parts(then):
                yield lambda part=part: _weighted(way.rows(part(), names), 1)  # type: ignore[misc]
        low, high = sorted((since, self.position))
        sign = 1 if since <= self.position else -1
        for one in self.reader.segments(self.relation, low, high):
            yield lambda one=one: _signed(  # type: ignore[misc]
                self.reader.read(self.relation, [one], names, after=low, until=high), sign
            )


def _weights(rows: pa.Table) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = rows[WEIGHT].to_numpy()
    return np.ascontiguousarray(found)


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, np.int64)))


def _signed(rows: pa.Table, sign: int) -> pa.Table:
    if sign > 0:
        return rows
    at = rows.schema.get_field_index(WEIGHT)
    return rows.set_column(at, WEIGHT, pa.array(-_weights(rows)))
