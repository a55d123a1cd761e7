"""Stream tables refreshed when they are due.

Everything that says what is due is in the catalog, so a scheduler may end at any moment and another one go on. One is
at work at a time: `turn` is a lease that goes with its process. Refreshes by hand, here or elsewhere, take turns with
its rounds by the lease of the rounds themselves.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.catalog import changelog, sources, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.stream_tables import StreamTable
from penstock.cut import Frontier
from penstock.errors import Busy
from penstock.refresh.dag import reachable
from penstock.refresh.due import Candidate, aligned, is_due
from penstock.refresh.life import Status
from penstock.refresh.positions import readable_of
from penstock.refresh.schedule import Downstream, parse
from penstock.refresh.standing import Leaves, is_changed

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine
    from penstock.refresh.round import Refresh

log = logging.getLogger("penstock.run")

LEASE = "scheduler"
_STANDBY = 0.5  # seconds between two looks at whether the other one is still there


def turn(engine: Engine, stop: threading.Event) -> Lease | None:
    """Become the home's only scheduler, however long that takes; None if stopped before."""
    said = False
    while not stop.is_set():
        try:
            return engine.catalog.lease(LEASE)
        except Busy as busy:
            if not said:
                log.warning("%s; waiting to take over", busy.message)
                said = True
            stop.wait(_STANDBY)
    return None


class Scheduler:
    """`tick` refreshes what is due now, in one round. Nothing due costs one round trip, and no Spark.

    `capture` brings what is new, for those that are due again before the slowest of the round are done.
    """

    def __init__(self, engine: Engine, stop: threading.Event, capture: Callable[[], object] | None = None) -> None:
        self._engine = engine
        self._stop = stop
        self._capture = capture
        self._passing: dict[int, int] = {}
        self._took: dict[int, float] = {}

    def tick(self) -> dict[str, Refresh]:
        if not self._engine.settings.enabled:
            return {}
        names = self.due()
        return self._refresh(names) if names else {}

    def due(self, now: datetime | None = None) -> list[str]:
        every, changed, there = self._engine.catalog.ask(stream_tables.EVERY, changelog.LAST_CHANGES, sources.EVERY)
        return self._due({table.relation_id: table for table in every}, changed, readable_of(there), now)

    def _due(
        self, tables: Mapping[int, StreamTable], changed: Mapping[int, tuple[str, int]], target: Frontier,
        now: datetime | None = None,
    ) -> list[str]:  # fmt: skip
        at = now or datetime.now(UTC)
        gap = self._engine.settings.on_commit_gap
        return [one.name for one in candidates(tables, changed, target) if is_due(one, at, gap)]

    def _refresh(self, names: list[str]) -> dict[str, Refresh]:
        from penstock.refresh import round as rounds

        engine, settings = self._engine, self._engine.settings
        terms = rounds.Terms(
            "SCHEDULER", settings.differential_max_change_ratio, settings.max_consecutive_errors, (), self._stop,
            self._passing, self._took,
        )  # fmt: skip
        again = None
        if self._capture is not None:
            again = rounds.Again(self._capture, lambda found: self._due(found.tables, found.changed, found.target))
        done = rounds.refresh(
            engine.catalog, engine.plans, engine.workers, names, terms=terms, wait=settings.lock_timeout, again=again
        )
        for one in done.moves:
            said = (one.name, one.action, one.inserted, one.deleted, one.seconds)
            log.info("%s: %s, +%d -%d in %.2f s", *said, extra=one.fields)
        for name, failure in done.failures.items():
            log.error("%s: %s", name, failure, extra={"stream_table": name, "action": "FAILED"})
        return done.done


def candidates(
    tables: Mapping[int, StreamTable], changed: Mapping[int, tuple[str, int]], target: Frontier
) -> list[Candidate]:
    """All stream tables that have a schedule and whose tables can be read; not over one that is being copied again."""
    leaves = Leaves(tables)
    above = {id_: [one for one in table.inputs if one in tables] for id_, table in tables.items()}
    related = {one for id_, read in above.items() if read for one in (id_, *read)}
    found = []
    for id_, table in tables.items():
        when, read = parse(table.schedule), leaves(id_)
        if isinstance(when, Downstream) or not read <= changed.keys():
            continue
        upstream = [tables[one] for one in reachable(above[id_], above)]
        retries = [one.retry_at for one in (table, *upstream) if one.retry_at is not None]
        found.append(
            Candidate(
                table.name,
                aligned(when) if id_ in related else when,
                table.status,
                held=table.suspended_by == "hand",
                tried_at=table.tried_at,
                retry_at=max(retries, default=None),
                changed=table.reinit_reason is not None or is_changed(table, read, changed),
                behind=table.frontier != target.only({changed[one][0] for one in read}),
                blocked=any(one.status == Status.ERROR or one.suspended_by == "hand" for one in upstream),
            )
        )
    return found
