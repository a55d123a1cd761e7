"""Verification on a schedule, beside the work of `run()`: tables in a thread that captures nothing itself, then stream
tables one a tick, each computed anew at its own frontier (they share Spark with the refreshes).

It repairs nothing. What it finds is logged and recorded; the time of the last one is in the catalog, so that a restart
does not begin anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.catalog import relations, stream_tables, verifications
from penstock.catalog.verifications import Verified
from penstock.cut import Frontier
from penstock.errors import PenstockError
from penstock.refresh.verification import Difference
from penstock.refresh.verify import compare_tables, compare_view

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

log = logging.getLogger("penstock.verify")


class ScheduledVerification:
    """`tick` is called again and again, and does a small part each time, or nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._every = engine.settings.verify_interval
        self._due: float | None = None
        self._thread: threading.Thread | None = None
        self._line: Verified | None = None
        self._views: list[str] = []
        self._started = 0.0

    def tick(self) -> None:
        if self._every is None or (self._thread is not None and self._thread.is_alive()):
            return
        if self._line is None:
            self._start_if_due(self._every)
        elif self._views and self._line.error is None:
            self._view(self._views.pop())
        else:
            self._finish(self._line)

    def _start_if_due(self, every: float) -> None:
        if self._due is None:
            last = verifications.last_scheduled(self._engine.catalog)
            ago = every if last is None else (datetime.now(UTC) - last).total_seconds()
            self._due = time.monotonic() + every - ago
        if time.monotonic() < self._due:
            return
        self._started = time.monotonic()
        self._due = self._started + every
        self._views = [one.name for one in stream_tables.every(self._engine.catalog) if one.frontier is not None]
        self._line = Verified(None, 0.0, scheduled=True)
        self._thread = threading.Thread(target=self._tables, name="penstock-verify", daemon=True)
        self._thread.start()

    def _tables(self) -> None:
        try:
            found = compare_tables(self._engine)
            self._add(found.frontier, found.rows.items(), found.differences)
        except PenstockError as error:
            self._failed(error)
        finally:
            self._engine.catalog.leave()

    def _view(self, name: str) -> None:
        table = stream_tables.lookup(self._engine.catalog, name)
        known = {one.id for one in relations.every(self._engine.catalog)}
        if table is None or not known.issuperset(table.inputs):
            return  # dropped, or over a table that is being copied again
        try:
            compared = compare_view(self._engine, table)
            if compared is None:
                log.info("verify: %s cannot be compared: its query leaves a choice among rows", name)
                return
            rows, found = compared
            self._add(Frontier({}), [(name, rows)], [found] if found else [])
        except PenstockError as error:
            self._failed(error)

    def _add(self, frontier: Frontier, rows: Iterable[tuple[str, int]], differences: Iterable[Difference]) -> None:
        assert self._line is not None
        for one in differences:
            log.error("verify: %s", one)
        self._line = replace(
            self._line,
            frontier=frontier if self._line.frontier is None else self._line.frontier,
            rows={**self._line.rows, **dict(rows)},
            differences={**self._line.differences, **{one.relation: one.count for one in differences}},
        )

    def _failed(self, error: PenstockError) -> None:
        assert self._line is not None
        log.warning("verify: %s", error.message)
        self._line = replace(self._line, error=error.message)

    def _finish(self, line: Verified) -> None:
        line = replace(line, seconds=time.monotonic() - self._started)
        verifications.record(self._engine.catalog, line)
        if line.ok:
            log.info("verify: %d relations equal their source, %.1f s", len(line.rows), line.seconds)
        self._line = None
