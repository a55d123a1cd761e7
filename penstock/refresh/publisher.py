"""The publisher of a `run()`: a thread of its own, so that neither capture nor refreshes wait for a Delta table.

Each time it takes all relations that are due to one frontier and writes the manifest. It then rests, so that adaptive
publishing takes at most its share of the time. A relation that cannot be published (another writer's commit, say) is
named in the log and in the history, left aside for a while, and holds up no other.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.catalog import publishing
from penstock.catalog.publishing import Waiting
from penstock.errors import Busy, NotFound, PenstockError
from penstock.priority import go_behind
from penstock.refresh.delta_upkeep import Upkeeper
from penstock.refresh.pace import Pace, pause_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.refresh.engine import Engine

log = logging.getLogger("penstock.run")

_TICK = 0.5
_ASIDE = 300.0
_POOL = "publish"  # of Spark's fair scheduler, and the tag of its jobs: refreshes are in another
_BETWEEN_CANCELS = 0.2  # a publish is several jobs; what is cancelled between two of them does not notice


class Publisher:
    """`failure` is what ended it, if anything did; transient errors are waited out."""

    def __init__(self, engine: Engine, stop: threading.Event) -> None:
        self._engine = engine
        self._stop = stop
        self._thread = threading.Thread(target=self._work, name="penstock publisher", daemon=True)
        self._rest_until = 0.0
        self._aside: dict[str, float] = {}
        self._upkeep = Upkeeper(engine)
        self._spark: SparkSession | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Wait for the thread, whose Spark jobs are cancelled: Delta either has a publish whole or not at all."""
        from penstock.lake.session import cancel

        self._stop.set()
        while self._thread.is_alive():
            if self._spark is not None:
                cancel(self._spark, _POOL)
            self._thread.join(_BETWEEN_CANCELS)

    def _work(self) -> None:
        try:
            go_behind()
            while not self._stop.wait(_TICK):
                self._try_step()
        except BaseException as error:
            if not self._stop.is_set():  # else Spark may be gone already
                self.failure = error
        finally:
            self._engine.catalog.leave()

    def _try_step(self) -> None:
        try:
            self.step()
        except PenstockError as error:
            if not error.transient:
                raise
            log.warning("publishing: %s; trying again", error.message)
            self._stop.wait(5.0)

    def step(self) -> list[str]:
        """Publish what is due; the names of it. Nothing due costs one query, and no Spark."""
        now = time.monotonic()
        due = [one for one in publishing.waiting(self._engine.catalog) if self._is_due(one, now)]
        if due:
            self._publish(due)
            self._rest_until = time.monotonic() + pause_after(
                time.monotonic() - now, self._engine.settings.publish_share
            )
        return [one.name for one in due]

    def _is_due(self, one: Waiting, now: float) -> bool:
        if self._aside.get(one.name, 0.0) > now:
            return False
        pace = Pace.of(one.pace or self._engine.settings.publish_interval)
        age = None if one.since is None else (datetime.now(UTC) - one.since).total_seconds()
        return pace.due(age, rested=now >= self._rest_until)

    def _publish(self, due: list[Waiting]) -> None:
        from penstock.lake.session import in_pool, tagged
        from penstock.refresh.publishing import publish_relation, target, write_manifest

        self._spark = self._engine.spark
        in_pool(self._spark, _POOL)
        tagged(self._spark, _POOL)
        frontier = target(self._engine.catalog)
        moved = False
        for one in due:
            if self._stop.is_set():
                return
            try:
                done = publish_relation(self._engine, one.name, frontier, ending=self._stop.is_set)
                if done.how == "unchanged":  # what waits came after the frontier
                    continue
                moved = True
                log.info("%s: %s, %d rows in %.2f s (%s)", done.name, done.how, done.rows, done.seconds, done.reason)
                self._upkeep.after(one.name)
            except (Busy, NotFound) as error:  # somebody else publishes it, or it was dropped meanwhile
                log.info("%s: %s", one.name, error.message)
            except PenstockError as error:
                if self._stop.is_set():
                    log.info("%s: the publish was cut short, the next run does it", one.name)
                    return
                self._aside[one.name] = time.monotonic() + _ASIDE
                log.error("%s; trying again in %.0f s. %s", error.message, _ASIDE, error.hint)
        if moved:
            write_manifest(self._engine, frontier)
