"""From the start of a process to its first change, with one waiting (here) and with a backlog waiting (beside it)."""

from __future__ import annotations

import statistics
import time

from penstock.bench.capture import child, contenders
from penstock.bench.capture.ground import Ground
from penstock.bench.figure import Figure
from penstock.capture import Checkpoint

_MOST = 5.0


def figures(ground: Ground) -> list[Figure]:
    with ground.database("restarts") as source:
        ground.say("restarts")
        source.execute("CREATE TABLE t (id int PRIMARY KEY)")
        state = contenders.checkpoint_of_new(source.dsn, "restarts")
        source.execute("INSERT INTO t VALUES (1)")
        return [figure(ground, "one change waiting", source.dsn, state)]


def figure(ground: Ground, what: str, dsn: str, state: Checkpoint) -> Figure:
    """The middle one of five starts; nothing is acknowledged, so each finds the same changes."""
    taken = statistics.median(_first_event(dsn, state) for _ in range(ground.times(5)))
    ground.say(f"  first event of a new process after {taken:.2f} s")
    return Figure(f"{what}: new process to its first event", f"{taken:.2f} s", f"< {_MOST:g} s", taken < _MOST)


def _first_event(dsn: str, state: Checkpoint) -> float:
    """Seconds from before the process exists; the interpreter and the kernels are loaded in them."""
    started = time.time()
    arrived: float = child.ask("first_event", dsn, state.to_json())
    return arrived - started
