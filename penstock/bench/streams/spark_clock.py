"""The time that refreshes spend in Spark: being handed their inputs, planning, running and giving the rows back."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from penstock.refresh import compute, reads


class SparkClock:
    """`queries` has the seconds of each query whose rows were fetched, by stream table; `total` those of all."""

    def __init__(self) -> None:
        self.queries: defaultdict[str, list[float]] = defaultdict(list)
        self.total = 0.0
        self._handed = threading.local()

    def handing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A call that hands Spark the inputs of the query that follows in the same thread."""

        def run(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            made = call(*given, **named)
            self._handed.seconds = time.perf_counter() - started
            self.total += self._handed.seconds
            return made

        return run

    def querying(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(reader: Any, rendered: Any, frames: Any, stored: compute.Stored) -> Any:
            started = time.perf_counter()
            rows = call(reader, rendered, frames, stored)
            taken = time.perf_counter() - started
            self.total += taken
            self.queries[stored.relations[compute.VIEW].name].append(taken + getattr(self._handed, "seconds", 0.0))
            return rows

        return run


@contextmanager
def spark_clock() -> Iterator[SparkClock]:
    clock = SparkClock()
    with ExitStack() as stack:
        for name in ("frames", "frames_in_memory"):
            stack.enter_context(patch.object(reads, name, clock.handing(getattr(reads, name))))
        stack.enter_context(patch.object(compute, "_collect", clock.querying(compute._collect)))
        yield clock
