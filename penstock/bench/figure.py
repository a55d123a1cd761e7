"""A measured figure, with the bar it must meet if there is one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    what: str
    text: str
    bar: str = ""
    ok: bool | None = None


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def median(call: Callable[[], object], *, before: Callable[[], object] | None = None, times: int = 5) -> float:
    """The middle one of several timings; `before` runs untimed before each."""
    taken = []
    for _ in range(times):
        if before is not None:
            before()
        taken.append(seconds(call))
    return statistics.median(taken)
