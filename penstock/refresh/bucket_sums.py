"""Rows counted and their hashes added up, bucket by bucket: equal on both sides where the rows are.

A row's bucket is part of its hash, so a row that differs shows in one bucket or two, whatever the order of the rows and
wherever they lie, and only the rows of those buckets need to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.capture.kernels import hashes

_MOST = 4096
_ROWS = 1000  # in a bucket of a table that is not too large for it


def bucket_count(rows: int) -> int:
    """A power of two.

    >>> bucket_count(10), bucket_count(300_000), bucket_count(10**9)
    (1, 512, 4096)
    """
    return min(_MOST, 1 << max(0, (rows // _ROWS)).bit_length()) if rows > _ROWS else 1


@dataclass
class BucketSums:
    """Sums are modulo 2⁶⁴."""

    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.uint64]

    @classmethod
    def empty(cls, buckets: int) -> BucketSums:
        return cls(np.zeros(buckets, np.int64), np.zeros(buckets, np.uint64))

    def add_rows(self, row_hashes: npt.NDArray[np.uint64], weights: npt.NDArray[np.int64]) -> None:
        hashes.add_up(row_hashes, weights, len(self.counts) - 1, self.counts, self.sums)

    def add_bucket(self, bucket: int, count: int, total: int) -> None:
        self.counts[bucket] += count
        self.sums[bucket : bucket + 1] += np.uint64(total % (1 << 64))  # of an array, so that it wraps

    def add(self, other: BucketSums) -> None:
        self.counts += other.counts
        self.sums += other.sums

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def differing(self, other: BucketSums) -> list[int]:
        unequal = (self.counts != other.counts) | (self.sums != other.sums)
        return [int(bucket) for bucket in np.flatnonzero(unequal)]

    def groups(self, other: BucketSums, buckets: list[int], most: int) -> Iterator[list[int]]:
        """The buckets in groups of about `most` rows on the larger side."""
        group: list[int] = []
        size = 0
        for bucket in buckets:
            rows = int(max(abs(self.counts[bucket]), abs(other.counts[bucket])))
            if group and size + rows > most:
                yield group
                group, size = [], 0
            group.append(bucket)
            size += rows
        if group:
            yield group
