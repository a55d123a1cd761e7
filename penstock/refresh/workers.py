"""Threads that compute stream tables side by side on one Spark.

Each thread at work has a reader of its own, whose Spark session has its own temporary views: two queries that are
computed at once would otherwise take each other's inputs. The reader that was given back last is taken first, so that
work that comes one by one always meets the same, warm one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock.lake.reader import Reader
from penstock.lake.session import adopt
from penstock.relation.segment import make_durable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class Workers:
    """`first` is the reader that is used while there is nothing to do side by side."""

    def __init__(self, first: Reader, spark: Callable[[], SparkSession], most: int) -> None:
        self.most = most
        self._first = first
        self._spark = spark
        self._free = [first]
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._disk = ThreadPoolExecutor(2, thread_name_prefix="penstock disk")

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        with self._lock:
            taken = self._free.pop() if self._free else self._another()
        try:
            yield taken
        finally:
            with self._lock:
                self._free.append(taken)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.most, thread_name_prefix="penstock refresh")
        return self._pool.submit(work)

    def make_durable(self, path: Path) -> Future[None]:
        """A file, while other things are done."""
        return self._disk.submit(make_durable, path)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        self._disk.shutdown()

    def _another(self) -> Reader:
        sessions: list[SparkSession] = []

        def session() -> SparkSession:
            if not sessions:
                sessions.append(adopt(self._spark()))
            return sessions[0]

        return Reader(self._first.home, self._first.catalog, session)
