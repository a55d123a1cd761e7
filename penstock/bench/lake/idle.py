"""A round over 500 tables in which nothing happens: all that `run()` does each time, and that it needs no Spark.

Every table has a Delta table already, as after the first publish; that is only said in the catalog, since making 500 of
them takes minutes, and nothing of the measured work looks at them.
"""

from __future__ import annotations

import threading

from rich.console import Console

from penstock.bench.figure import Figure, median
from penstock.bench.lake.ground import Ground, ground, sized
from penstock.catalog import relations
from penstock.catalog.relations import Base
from penstock.refresh.publisher import Publisher
from penstock.refresh.runner import capture
from penstock.refresh.scheduler import Scheduler

_TABLES, _MOST, _TIMES = 500, 0.100, 20


def run(console: Console) -> list[Figure]:
    tables = sized(_TABLES, 5)
    with ground(console) as there:
        there.say(f"{tables} tables, one row each")
        there.db.execute(
            f"DO $$ BEGIN FOR i IN 1..{tables} LOOP EXECUTE format("
            "'CREATE TABLE t%s (id int PRIMARY KEY, x text); INSERT INTO t%1$s VALUES (1)', i); "
            "END LOOP; END $$".encode()
        )
        there.ps.add_source("shop", there.dsn, tables=["public.*"])
        return _measure(there, tables)


def _measure(there: Ground, tables: int) -> list[Figure]:
    ps = there.ps
    with ps.catalog.lease("publish all") as lease, ps.catalog.commit(lease, None, "publish") as commit:
        for relation in relations.every(ps.catalog):
            relations.record_base(commit, relation.id, Base(int(ps.frontier()["shop"]), 0, 1))
    publisher = Publisher(ps.engine, threading.Event())
    scheduler = Scheduler(ps.engine, threading.Event())

    def once() -> None:
        capture(ps.engine, set())
        assert scheduler.tick() == {}
        assert publisher.step() == []

    once()
    there.say("rounds")
    taken = median(once, times=_TIMES)
    started = "_spark" in ps.engine.__dict__
    text = f"{taken * 1000:.1f} ms, Spark {'was started' if started else 'not started'}"
    bar = f"< {_MOST * 1000:.0f} ms, no Spark job"
    return [Figure(f"{tables} idle tables: a round", text, bar, taken < _MOST and not started)]
