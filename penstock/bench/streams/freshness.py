"""Commit to visible: how long after its commit an order of the demo's shop is in an on-commit view, under the load.

`run()` captures, refreshes and publishes in this process; the shop's load and the clock are in another one, as an
application is (`shop_load`). It is compared with what Spark alone takes for such a refresh, under the same load: to be
handed the changes, to plan and run the view's query, and to give the rows back.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from rich.console import Console

import penstock
from penstock.bench.figure import Figure
from penstock.bench.lake.ground import Ground, ground, sized
from penstock.bench.streams.spark_clock import spark_clock
from penstock.demo import shop
from penstock.demo.run import VIEWS
from penstock.errors import PenstockError

_RATE, _SAMPLES, _VIEW = 40.0, 300, "open_orders"
_P50, _P99, _GOAL = 3.0, 8.0, 1.0


def run(console: Console) -> list[Figure]:
    with ground(console) as there:
        shop.create(there.db)
        there.ps.add_source("shop", there.dsn, tables=["public.*"])
        for name, query in VIEWS.items():
            there.ps.create_stream_table(name, query, schedule="on-commit")
        there.say("copied; first refreshes")
        there.ps.refresh_all()
        return _measure(there)


def _measure(there: Ground) -> list[Figure]:
    samples = sized(_SAMPLES, 10)
    warm = max(5, samples // 3)  # until the JVM has compiled what is run again and again
    with spark_clock() as clock, _running(there.ps), _load(there, warm + samples) as seconds:
        there.say(f"{_RATE:g} transactions a second; {warm} samples to get warm")
        list(islice(seconds, warm))
        clock.queries.clear()
        there.say(f"{samples} samples")
        taken = sorted(seconds)
    if len(taken) < samples:
        raise PenstockError(f"the load ended after {len(taken)} of {samples} samples")
    query = statistics.median(clock.queries[_VIEW])
    p50, p99 = statistics.median(taken), taken[math.ceil(0.99 * len(taken)) - 1]
    beside = f"one warm Spark query of its delta ({query * 1000:.0f} ms)"
    return [
        _figure("commit to visible, p50", p50, query, _P50, beside),
        _figure("commit to visible, p99", p99, query, _P99, beside),
        Figure("commit to visible, the goal", f"p50 {p50:.2f} s", f"< {_GOAL:g} s", None),
    ]


def _figure(what: str, seconds: float, query: float, most: float, beside: str) -> Figure:
    return Figure(what, f"{seconds:.2f} s: {seconds / query:.1f}× {beside}", f"< {most:g}×", seconds < most * query)


@contextmanager
def _load(there: Ground, samples: int) -> Iterator[Iterator[float]]:
    command = [sys.executable, "-m", "penstock.bench.streams.shop_load"]
    arguments = [there.dsn, there.ps.catalog.dsn, _VIEW, str(_RATE), str(samples)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield map(float, child.stdout)
        finally:
            child.terminate()


@contextmanager
def _running(ps: penstock.Session) -> Iterator[None]:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            ps.run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="penstock run")
    thread.start()
    try:
        yield
    finally:
        ps.stop()
        thread.join()
    if failures:
        raise failures[0]
