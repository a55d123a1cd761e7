"""One query after one change: refreshed by differences, by AUTO, and computed anew by Spark, in turns.

Anew is the query alone over the same tables in the same session, its result made, hashed and dropped: nothing is stored
and nothing compared, so it is the least that recomputing costs. Beside the seconds stand the rows that were read, by
Spark as its input metrics tell, and by looking up rows in files without it; those do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import functions as F

import penstock
from penstock.bench.figure import seconds
from penstock.bench.views.ground import auto
from penstock.catalog import relations, stream_tables
from penstock.lake.base_files import BaseFiles
from penstock.lake.session import quoted
from penstock.refresh import compute
from penstock.refresh.round import Refresh


@dataclass(frozen=True)
class Side:
    """What one way of refreshing took."""

    seconds: float
    rows: int  # read by Spark
    looked_up: int = 0  # looked at without Spark


@dataclass(frozen=True)
class Run:
    query: str
    differential: Side
    full: Side
    auto: Side
    chosen: str  # by AUTO
    scanned: tuple[str, ...]  # what the differential refresh had Spark read, and how

    @property
    def faster(self) -> float:
        return self.full.seconds / self.differential.seconds

    @property
    def auto_to_better(self) -> float:
        return self.auto.seconds / min(self.differential.seconds, self.full.seconds)


class Measure:
    def __init__(self, ps: penstock.Session) -> None:
        self._ps = ps
        self._turn = 0

    def query(self, name: str) -> Run:
        done: dict[str, Refresh] = {}

        def refresh(which: str) -> None:
            done[which] = self._ps.refresh(which)

        ways: dict[str, Callable[[], None]] = {
            "differential": lambda: refresh(name),
            "auto": lambda: refresh(auto(name)),
            "full": lambda: self._anew(name),
        }
        order: Sequence[str] = list(ways)
        self._turn += 1
        order = [*order[self._turn % 3 :], *order[: self._turn % 3]]  # whoever is first reads the changes for all
        sides = {way: self._side(ways[way]) for way in order}
        chosen = str(done[auto(name)].action)
        scanned = tuple(str(one) for one in done[name].reads if one.scanned)
        return Run(name, sides["differential"], sides["full"], sides["auto"], chosen, scanned)

    def _anew(self, name: str) -> None:
        engine = self._ps.engine
        known = relations.every(self._ps.catalog)
        table = stream_tables.get(self._ps.catalog, name)
        inputs = {one.name: engine.position(one.name)[:2] for one in known if one.id in table.inputs}
        frame = compute.query_alone(engine.reader, engine.plans.of(table, known), inputs)
        frame.agg(F.max(F.xxhash64(*map(quoted, frame.columns)))).collect()  # `noop` cannot read deletion vectors

    def _side(self, call: Callable[[], None]) -> Side:
        looked, last = BaseFiles.looked_at, self._newest_stage()
        taken = seconds(call)
        return Side(taken, self._read_since(last), BaseFiles.looked_at - looked)

    def _stages(self) -> object:
        """The newest first."""
        context = self._ps.spark.sparkContext
        running, jvm, gateway = context._jsc.sc(), context._jvm, context._gateway
        assert jvm is not None
        assert gateway is not None
        running.listenerBus().waitUntilEmpty()
        no_quantiles, any_task = gateway.new_array(jvm.double, 0), jvm.java.util.ArrayList()
        return running.statusStore().stageList(None, False, False, no_quantiles, any_task)

    def _newest_stage(self) -> int:
        stages = self._stages()
        return int(stages.apply(0).stageId()) if stages.size() else -1  # type: ignore[attr-defined]

    def _read_since(self, last: int) -> int:
        stages, rows = self._stages(), 0
        for place in range(stages.size()):  # type: ignore[attr-defined]
            stage = stages.apply(place)  # type: ignore[attr-defined]
            if stage.stageId() <= last:
                break
            rows += stage.inputRecords()
        return rows
