"""The time that refreshes spend in Spark: handing it their inputs, planning, running and fetching the rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from penstock.refresh import compute, reads


class SparkClock:
    """`queries` has the seconds of each query whose rows were fetched, `total` those of all work inside Spark."""

    def __init__(self) -> None:
        self.queries: list[float] = []
        self.total = 0.0

    def timed(self, call: Callable[..., Any], *, query: bool) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                taken = time.perf_counter() - started
                self.total += taken
                if query:
                    self.queries.append(taken)

        return run


@contextmanager
def spark_clock() -> Iterator[SparkClock]:
    clock = SparkClock()
    with ExitStack() as stack:
        for module, name, query in (
            (compute, "_collect", True),
            (reads, "frames", False),
            (reads, "frames_in_memory", False),
        ):
            timed = clock.timed(getattr(module, name), query=query)
            stack.enter_context(patch.object(module, name, timed))
        yield clock
