"""Alerts about what nobody did: a stream table that is stale, a slot for which the server keeps too much WAL.

Beside a run, every ten seconds. Each alert is raised once, and cleared when it is no longer so.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from penstock.catalog import alerts
from penstock.catalog.alerts import Alert
from penstock.catalog.store import Catalog
from penstock.refresh.monitor import Monitor, SlotHealth, StreamTableInfo

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

INTERVAL = 10.0
STALE, SLOT_LAG = "stale", "slot_lag_warning"
log = logging.getLogger("penstock.alert")


def look(catalog: Catalog) -> None:
    """Raise what is so, clear what is not any more."""
    monitor = Monitor(catalog)
    tables = [stale for one in monitor.stream_tables() if (stale := stale_alert(one)) is not None]
    slots = [late for one in monitor.slot_health() if (late := slot_alert(one)) is not None]
    for alert in (*tables, *slots):
        alerts.tell(catalog, alert)
    so = {(one.kind, one.subject) for one in (*tables, *slots)}
    for one in alerts.now(catalog):
        if one.kind in (STALE, SLOT_LAG) and (one.kind, one.subject) not in so:
            alerts.clear(catalog, one.kind, one.subject)


def stale_alert(table: StreamTableInfo) -> Alert | None:
    """Of one that is to be refreshed; a suspended one has been told of."""
    if not table.stale or table.staleness is None or table.status != "ACTIVE":
        return None
    return Alert(
        STALE,
        table.name,
        f"stream table {table.name} shows what was {table.staleness:.0f} s ago, more than twice its schedule of "
        f"{table.schedule}",
        "penstock status says whether capture or its refreshes are behind; a longer schedule is easier to keep.",
    )


def slot_alert(slot: SlotHealth) -> Alert | None:
    if slot.problem is None:
        return None
    return Alert(
        SLOT_LAG,
        slot.source,
        f"slot {slot.slot} of source {slot.source}: {slot.problem}",
        "penstock slots list shows all slots; WAL is kept until penstock run has captured it.",
    )


class Watch:
    """A thread of its own while the block lasts, so that a source that does not answer keeps nobody waiting."""

    def __init__(self, engine: Engine) -> None:
        self._catalog = engine.catalog
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=INTERVAL)

    def _run(self) -> None:
        try:
            while not self._ended.wait(INTERVAL):
                self._look()
        finally:
            self._catalog.leave()

    def _look(self) -> None:
        """What goes wrong here is logged, and never ends the run that it is beside."""
        try:
            look(self._catalog)
        except Exception as error:
            if not self._ended.is_set():
                log.warning("the look at what is stale failed and will be tried again: %s", error)
