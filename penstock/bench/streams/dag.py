"""200 stream tables in six levels over 20 tables: what they cost when nothing happens, and when one table changes."""

from __future__ import annotations

import statistics
import threading
import time

from rich.console import Console

from penstock.bench.figure import Figure, median
from penstock.bench.lake.ground import Ground, ground, sized
from penstock.bench.streams.spark_clock import spark_clock
from penstock.catalog import stream_tables
from penstock.refresh.dag import downstream_of
from penstock.refresh.define import inputs_by_name
from penstock.refresh.runner import capture
from penstock.refresh.scheduler import Scheduler

_TABLES, _VIEWS, _LEVELS = 20, 200, 6
_IDLE, _OVERHEAD, _TIMES = 0.050, 0.20, 5


def run(console: Console) -> list[Figure]:
    tables, views = sized(_TABLES, 3), sized(_VIEWS, 12)
    with ground(console, {"max_concurrent_refreshes": 1}) as there:  # so that the times of queries add up
        for i in range(tables):
            there.db.execute(f"CREATE TABLE t{i} (id int PRIMARY KEY, g int, x int)".encode())
            there.db.execute(f"INSERT INTO t{i} SELECT n, n % 10, n FROM generate_series(1, 1000) n".encode())
        there.ps.add_source("shop", there.dsn, tables=["public.*"])
        there.say(f"{views} stream tables")
        for name, query in graph(tables, views).items():
            there.ps.create_stream_table(name, query, schedule="on-commit")
        there.say("first refreshes")
        there.ps.refresh_all()
        return _measure(there)


def graph(tables: int, views: int) -> dict[str, str]:
    """Each view reads one of the level below, every third one two: a filter, a sum by group or a join of sums, in turn.

    >>> found = graph(2, 12)
    >>> found["v0_1"], len(found)
    ('SELECT g, count(*)::int AS x FROM t1 GROUP BY g', 12)
    """
    wide = -(-views // _LEVELS)
    found: dict[str, str] = {}
    for number in range(views):
        level, place = divmod(number, wide)
        below = [f"t{i}" for i in range(tables)] if level == 0 else [f"v{level - 1}_{i}" for i in range(wide)]
        one, two = below[place % len(below)], below[(place + 1) % len(below)]
        found[f"v{level}_{place}"] = (
            f"SELECT g, x FROM {one} WHERE x % 2 = {level % 2}",
            f"SELECT g, count(*)::int AS x FROM {one} GROUP BY g",
            f"SELECT l.g, l.x + r.x AS x FROM (SELECT g, count(*)::int AS x FROM {one} GROUP BY g) l "
            f"JOIN (SELECT g, max(x) AS x FROM {two} GROUP BY g) r ON r.g = l.g",
        )[(place + level) % 3 if level else place % 2]
    return found


def _measure(there: Ground) -> list[Figure]:
    ps = there.ps
    scheduler = Scheduler(ps.engine, threading.Event())
    inputs = inputs_by_name(ps.catalog, stream_tables.every(ps.catalog))

    def idle() -> None:
        capture(ps.engine, set())
        assert all(one.action == "NO_DATA" for one in scheduler.tick().values())

    capture(ps.engine, set())
    scheduler.tick()
    there.say("idle ticks")
    nothing = median(idle, times=20)
    expected = downstream_of(["shop.public.t0"], inputs)
    there.say(f"one table changes, {len(expected)} of {len(inputs)} depend on it")
    exact, overheads, rounds = True, [], []
    for turn in range(_TIMES + 2):
        there.db.execute("UPDATE t0 SET x = x + 2, g = (g + 1) %% 10 WHERE id %% 100 = %s", (turn,))
        capture(ps.engine, set())
        started = time.perf_counter()
        with spark_clock() as clock:
            done = scheduler.tick()
        taken = time.perf_counter() - started
        exact = exact and {name for name, one in done.items() if one.action != "NO_DATA"} <= expected
        if turn >= 2:  # the first ones compile
            overheads.append(taken / clock.total - 1)
            rounds.append(taken)
    overhead = statistics.median(overheads)
    return [
        Figure(
            f"{len(inputs)} idle stream tables: a tick", f"{nothing * 1000:.0f} ms", f"< {_IDLE * 1000:.0f} ms",
            nothing < _IDLE,
        ),
        Figure(
            "one table changes: what is refreshed", f"{len(expected)} that depend on it" if exact else "others too",
            "only those", exact,
        ),
        Figure(
            "a round beyond its Spark queries", f"{overhead:.0%} of {statistics.median(rounds):.2f} s",
            f"< {_OVERHEAD:.0%}", overhead < _OVERHEAD,
        ),
    ]  # fmt: skip
