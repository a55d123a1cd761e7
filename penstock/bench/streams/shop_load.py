"""The demo's load, and somebody beside it who places an order now and then and waits until the view has it.

A process of its own, as an application is: `python -m penstock.bench.streams.shop_load DSN CATALOG VIEW RATE SAMPLES`.
A line per sample on standard output: the seconds from the return of COMMIT to a frontier that has passed it.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

import psycopg

from penstock.demo import shop
from penstock.lsn import Lsn

_GAP = 0.4  # seconds between two samples, on average
_PATIENCE = 120.0  # seconds until a view counts as stopped


def main(dsn: str, catalog: str, view: str, rate: str, samples: str) -> None:
    workload = shop.Workload(dsn, rate=float(rate))
    with psycopg.connect(dsn, autocommit=True) as db, psycopg.connect(catalog, autocommit=True) as frontiers:
        frontiers.execute("LISTEN penstock_alert")
        workload.start()
        try:
            rng = random.Random(3)
            for _ in range(int(samples)):
                print(_sample(db, frontiers, view, rng), flush=True)
                time.sleep(rng.uniform(0, 2 * _GAP))
        finally:
            workload.stop()


def _sample(db: psycopg.Connection[Any], frontiers: psycopg.Connection[Any], view: str, rng: random.Random) -> float:
    db.execute("BEGIN")
    shop.place_order(db, rng)
    # The commit is flushed then. Asked for later, the position would be behind commits of others, which may come with
    # the refresh after the one that shows this order.
    cursor = db.execute("COMMIT; SELECT pg_current_wal_flush_lsn()::text")
    committed = time.perf_counter()
    cursor.nextset()
    row = cursor.fetchone()
    assert row is not None
    lsn = Lsn.parse(row[0])
    while time.perf_counter() - committed < _PATIENCE:
        reached = _refreshed(frontiers, view)
        if reached is not None and reached >= lsn:
            return time.perf_counter() - committed
    raise TimeoutError(f"a commit was not in {view} after {_PATIENCE:.0f} s")


def _refreshed(frontiers: psycopg.Connection[Any], view: str) -> Lsn | None:
    """Where the view is after its next refreshes: as somebody knows who shows it, by the events of these."""
    reached = None
    for event in frontiers.notifies(timeout=1.0, stop_after=1):  # with all that came together
        told = json.loads(event.payload)
        if (told["event"], told["subject"]) == ("refresh_completed", view):
            reached = Lsn.parse(told["frontier"]["shop"])
    return reached


if __name__ == "__main__":
    main(*sys.argv[1:])
