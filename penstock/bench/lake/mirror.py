"""A first mirror, a publish of 1% changes and one of inserts alone, each beside the bare work of Spark and Delta.

The bare MERGE and append work on a copy of the published folder, with the changes prepared as one Parquet file:
one row per changed key, so nothing is left to do but Delta's own work.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import functions as F
from rich.console import Console

from penstock.bench.capture import snapshot
from penstock.bench.capture.ground import Database
from penstock.bench.figure import Figure, seconds
from penstock.bench.lake.ground import Ground, ground, in_turns, ratio, sized
from penstock.capture.config import SourceConfig
from penstock.catalog import relations

_ROWS, _SHARE, _TURNS = 5_000_000, 100, 3
_COPY_WORKERS = SourceConfig.copy_workers
_MIRROR, _MERGE, _APPEND = 2.0, 1.3, 1.5


def run(console: Console) -> list[Figure]:
    with ground(console) as there:
        rows = sized(_ROWS, 1000)
        there.make(rows)
        there.db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
        there.ps.spark.range(1).write.format("delta").save(str(there.folder / "warm"))
        mirrored = _mirror(there, rows)
        return [mirrored, *_publish(there, rows)]


def _mirror(there: Ground, rows: int) -> Figure:
    """COPY to nowhere and the write are measured apart and added up; ours is one call after the other."""
    ps = there.ps
    there.say("source to Delta")
    copied = seconds(lambda: ps.add_source("shop", there.dsn, tables=["public.t"]))
    published = seconds(lambda: ps.publish("t"))
    there.say(f"  {copied:.2f} s to segments, {published:.2f} s to Delta; now the bare work")
    plain = min(seconds(lambda: _copy_to_nowhere(there, rows)) for _ in range(2))
    written = min(_bare_write(there, turn) for turn in range(2))
    there.say(f"  {plain:.2f} s COPY to nowhere, {written:.2f} s Parquet to Delta")
    what = f"mirror of {rows:,} rows, source to Delta"
    return ratio(what, copied + published, plain + written, _MIRROR, beside="COPY to nowhere plus a bare write")


def _copy_to_nowhere(there: Ground, rows: int) -> None:
    """On as many connections as our copy uses."""
    snapshot.copy_plain(Database(there.dsn, there.db, there.server), _COPY_WORKERS, rows)


def _bare_write(there: Ground, turn: int) -> float:
    relation = relations.find(there.ps.catalog, "t")
    found = relations.segments(there.ps.catalog, relation.id, -1, there.ps.frontier()["shop"])
    frame = there.ps.spark.read.parquet(*(str(there.ps.home.path(one.path)) for one in found))
    target = there.folder / f"bare-{turn}"
    rows = frame.select(*relation.schema.names)
    return seconds(lambda: rows.write.format("delta").save(str(target)))


def _publish(there: Ground, rows: int) -> list[Figure]:
    changes = max(10, rows // _SHARE)
    turn = iter(range(1000))
    merge = _compared(there, "merged", lambda: there.change_share(rows, _SHARE, next(turn)), _bare_merge)
    append = _compared(there, "appended", lambda: _insert(there, rows, changes, next(turn)), _bare_append)
    what = f"changes into {rows:,} rows"
    return [
        ratio(f"publishing {changes:,} {what}", *merge, _MERGE, beside="the bare MERGE"),
        ratio(f"publishing {changes:,} inserts, no other {what}", *append, _APPEND, beside="a bare append"),
    ]


def _compared(
    there: Ground, how: str, change: Callable[[], None], bare: Callable[[Ground, Path, Path], None]
) -> tuple[float, float]:
    """Seconds of a publish and of the bare work on the same changes; both tables start each turn alike."""
    ps, copy, prepared = there.ps, there.folder / "copy", there.folder / "prepared"
    there.say(f"publish, {how}")
    mirror = Path(ps.publish("t").path)

    def prepare() -> None:
        since = ps.frontier()
        change()
        ps.catch_up()
        for folder in (copy, prepared):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(mirror, copy)
        changed = ps.changes("t", since)
        new = changed.where("_weight > 0").withColumn("_delete", changed._weight < 0)
        gone = changed.where("_weight < 0").join(new, "id", "left_anti").withColumn("_delete", changed._weight < 0)
        new.unionByName(gone).drop("_weight").coalesce(1).write.parquet(str(prepared))

    def ours() -> None:
        done = ps.publish("t")
        assert done.how == how, done
        there.say(f"  ours {done.seconds:.2f} s")

    contenders = {"ours": ours, "bare": lambda: bare(there, copy, prepared)}
    taken = in_turns(contenders, before=prepare, times=_TURNS)
    assert _rows_and_hashes(there, mirror) == _rows_and_hashes(there, copy), "the bare work made other rows"
    return taken["ours"], taken["bare"]


def _rows_and_hashes(there: Ground, folder: Path) -> list[Any]:
    rows = there.ps.spark.read.format("delta").load(str(folder))
    return rows.agg(F.count("*"), F.sum(F.xxhash64(*sorted(rows.columns)).cast("decimal(38,0)"))).collect()


def _insert(there: Ground, rows: int, changes: int, turn: int) -> None:
    first = 2 * rows + turn * rows
    there.insert(first + 1, first + changes)


def _bare_merge(there: Ground, copy: Path, prepared: Path) -> None:
    source = there.ps.spark.read.parquet(str(prepared)).alias("s")
    merge = DeltaTable.forPath(there.ps.spark, str(copy)).alias("t").merge(source, "t.id = s.id")
    merge = merge.whenMatchedDelete("s._delete").whenMatchedUpdateAll().whenNotMatchedInsertAll("NOT s._delete")
    merge.execute()


def _bare_append(there: Ground, copy: Path, prepared: Path) -> None:
    source = there.ps.spark.read.parquet(str(prepared)).drop("_delete")
    source.write.format("delta").mode("append").save(str(copy))
