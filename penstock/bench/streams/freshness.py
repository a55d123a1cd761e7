"""Commit to visible: how long after its commit an order of the demo's shop is in an on-commit view, under the load.

`run()` captures, refreshes and publishes in this process; beside the workload a transaction is made now and then, and
the catalog is asked until the view's frontier has passed it. It is compared with Spark's part of such a refresh.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from rich.console import Console

import penstock
from penstock.bench.figure import Figure
from penstock.bench.lake.ground import Ground, ground, sized
from penstock.bench.streams.spark_clock import spark_clock
from penstock.catalog import stream_tables
from penstock.demo import shop
from penstock.demo.run import VIEWS
from penstock.lsn import Lsn

_RATE, _SAMPLES, _VIEW = 40.0, 120, "open_orders"
_P50, _P99, _GOAL = 3.0, 8.0, 1.0
_GAP = 0.4  # seconds between two samples, on average


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
    workload = shop.Workload(there.dsn, rate=_RATE)
    with spark_clock() as clock, _running(there.ps), psycopg.connect(there.dsn, autocommit=True) as connection:
        workload.start()
        try:
            there.say(f"{_RATE:g} transactions a second")
            rng = random.Random(3)
            for _ in range(max(5, samples // 10)):  # the JVM gets warm
                _sample(there.ps, connection, rng)
            clock.queries.clear()
            taken = []
            for _ in range(samples):
                taken.append(_sample(there.ps, connection, rng))
                time.sleep(rng.uniform(0, 2 * _GAP))
        finally:
            workload.stop()
        query = statistics.median(clock.queries)
    taken.sort()
    p50, p99 = statistics.median(taken), taken[min(len(taken) - 1, round(0.99 * len(taken)))]
    beside = f"one warm Spark query of a delta ({query * 1000:.0f} ms)"
    return [
        _figure("commit to visible, p50", p50, query, _P50, beside),
        _figure("commit to visible, p99", p99, query, _P99, beside),
        Figure("commit to visible, the goal", f"p50 {p50:.2f} s", f"< {_GOAL:g} s", None),
    ]


def _figure(what: str, seconds: float, query: float, most: float, beside: str) -> Figure:
    return Figure(what, f"{seconds:.2f} s: {seconds / query:.1f}× {beside}", f"< {most:g}×", seconds < most * query)


def _sample(ps: penstock.Session, connection: psycopg.Connection[Any], rng: random.Random) -> float:
    shop.transact(connection, rng, shop.place_order)
    committed = time.perf_counter()
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    lsn = Lsn.parse(row[0])
    while True:
        frontier = stream_tables.get(ps.catalog, _VIEW).frontier
        if frontier is not None and frontier["shop"] >= lsn:
            return time.perf_counter() - committed
        time.sleep(0.005)


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
