"""Reading a table with unpublished changes beside reading the same rows from the freshly published Delta table.

All columns of all rows are read, each row hashed and the greatest hash kept: a sink without effect cannot read a Delta
table with deletion vectors. Half of the changes are updates, a quarter each inserts and
deletes, spread over the keys. The identity is FULL, so that nothing but reading is measured.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from penstock.bench.figure import Figure
from penstock.bench.lake.ground import Ground, ground, in_turns, ratio, sized

_ROWS, _CHANGES, _MOST, _TURNS, _WARM = 2_000_000, 100_000, 1.5, 5, 3


def run(console: Console) -> list[Figure]:
    with ground(console) as there:
        return _measure(there)


def _measure(there: Ground) -> list[Figure]:
    rows, changes = sized(_ROWS), sized(_CHANGES, 20)
    there.make(rows)
    there.db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    ps = there.ps
    there.say("copied and published")
    ps.add_source("shop", there.dsn, tables=["public.t"])
    path = ps.publish("t").path
    apart = rows // changes
    there.db.execute(f"UPDATE t SET amount = amount + 1 WHERE id % {2 * apart} = 0".encode())
    there.db.execute(f"DELETE FROM t WHERE id % {4 * apart} = 1".encode())
    there.insert(rows + 1, rows + changes // 4)
    ps.catch_up()
    there.say(f"{changes:,} changes captured")
    for _ in range(_WARM):
        _read(ps.table("t"))
    there.say("reading them unpublished")
    at = ps.frontier()
    unpublished = in_turns({"ours": lambda: _read(ps.table("t", at=at))}, times=_TURNS)["ours"]
    there.say("published; reading the Delta table")
    version = ps.publish("t").version
    mirror = ps.spark.read.format("delta").option("versionAsOf", version)
    for _ in range(_WARM):
        _read(mirror.load(path))
    delta = in_turns({"bare": lambda: _read(mirror.load(path))}, times=_TURNS)["bare"]
    what = f"reading {rows:,} rows with {changes:,} unpublished changes"
    return [ratio(what, unpublished, delta, _MOST, beside="the published Delta table")]


def _read(frame: DataFrame) -> None:
    frame.agg(F.max(F.xxhash64(*frame.columns))).collect()
