"""What Prometheus reads: gauges of how things are, counters of what was done since this process began to look.

Everything comes from the catalog, so it is the same whichever process does the work. A scrape asks each source about
its slot, at most every ten seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.catalog import alerts, changelog
from penstock.catalog.store import Catalog
from penstock.errors import ConfigError
from penstock.refresh.monitor import Monitor, RefreshLine, SlotHealth, SourceInfo, StreamTableInfo

_STATES = ("INITIALIZING", "ACTIVE", "SUSPENDED", "ERROR")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_ASK_AGAIN = 10.0
_LATE = 1000  # ids for which a line may still come: transactions do not commit in the order of their numbers


class Metrics(Collector):
    """One registry of a home; `collect` is called at every scrape."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._monitor = Monitor(catalog)
        self._lock = threading.Lock()
        self._slots: tuple[float, list[SlotHealth]] | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)  # first: what it counts is then collected after it, in the same scrape
        self._refreshes = Counter(
            "penstock_refreshes", "Refreshes, by what was done.", ("stream_table", "action"), registry=self.registry
        )
        self._errors = Counter(
            "penstock_refresh_errors", "Refreshes that failed.", ("stream_table",), registry=self.registry
        )
        self._rows = Counter(
            "penstock_refresh_rows", "Rows that refreshes put in and took out.", ("stream_table", "change"),
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "penstock_refresh_duration_seconds", "How long refreshes took.", ("stream_table",), buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self._first = self._last = self._newest()
        self._seen: set[int] = set()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            try:
                self._count(self._new_lines())
                yield from self._gauges()
            finally:
                self._catalog.leave()  # the server has a thread for every scrape

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: registering must not ask the catalog."""
        return ()

    def _newest(self) -> int:
        row = self._catalog.one("SELECT coalesce(max(id), 0) AS id FROM refresh_history")
        return int(row["id"]) if row else 0

    def _new_lines(self) -> list[RefreshLine]:
        found = [
            one for one in self._monitor.lines_after(max(self._last - _LATE, self._first)) if one.id not in self._seen
        ]
        self._seen |= {one.id for one in found}
        self._last = max([self._last, *(one.id for one in found)])
        self._seen = {one for one in self._seen if one > self._last - _LATE}
        return found

    def _count(self, lines: Iterable[RefreshLine]) -> None:
        for line in lines:
            if line.error is not None and line.action != "SKIP":
                self._errors.labels(line.stream_table).inc()
            self._refreshes.labels(line.stream_table, line.action).inc()
            self._rows.labels(line.stream_table, "inserted").inc(line.inserted)
            self._rows.labels(line.stream_table, "deleted").inc(line.deleted)
            self._seconds.labels(line.stream_table).observe(line.seconds)

    def _gauges(self) -> Iterator[Metric]:
        yield InfoMetricFamily("penstock_build", "The version that answers.", {"version": version("penstock")})
        tables = self._monitor.stream_tables()
        yield from _of_stream_tables(tables)
        yield from _of_sources(self._monitor.sources())
        yield from _of_slots(self._slot_health())
        size = changelog.size(self._catalog)
        yield GaugeMetricFamily("penstock_changelog_bytes", "Bytes of the changelog.", size.bytes)
        yield GaugeMetricFamily("penstock_changelog_segments", "Files of the changelog.", size.segments)
        active = GaugeMetricFamily("penstock_alerts", "Alerts that are so now.", labels=["kind"])
        kinds = [one.kind for one in alerts.now(self._catalog)]
        for kind in sorted(set(kinds)):
            active.add_metric([kind], kinds.count(kind))
        yield active

    def _slot_health(self) -> list[SlotHealth]:
        if self._slots is None or time.monotonic() - self._slots[0] > _ASK_AGAIN:
            self._slots = (time.monotonic(), self._monitor.slot_health())
        return self._slots[1]


def _family(name: str, text: str, label: str, values: Iterable[tuple[str, float | int | None]]) -> GaugeMetricFamily:
    """One value for each that has one."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for which, value in values:
        if value is not None:
            family.add_metric([which], float(value))
    return family


def _of_stream_tables(tables: list[StreamTableInfo]) -> Iterator[Metric]:
    of: list[tuple[str, str, Any]] = [
        ("staleness_seconds", "Age of what it shows.", lambda one: one.staleness),
        ("stale", "1 if that is more than twice its schedule.", lambda one: one.stale),
        ("rows", "Rows it has.", lambda one: one.rows),
        ("pending_rows", "Captured changes of its tables that are not in it yet.", lambda one: one.pending_rows),
        ("consecutive_errors", "Errors in a row.", lambda one: one.consecutive_errors),
        ("last_refresh_seconds", "How long its last refresh took.", lambda one: one.last_seconds),
    ]
    for name, text, value in of:
        values = [(one.name, value(one)) for one in tables]
        yield _family(f"penstock_stream_table_{name}", text, "stream_table", values)
    status = GaugeMetricFamily(
        "penstock_stream_table_status", "1 for the state it is in.", labels=["stream_table", "status"]
    )
    for one in tables:
        for state in _STATES:
            status.add_metric([one.name, state], float(one.status == state))
    yield status
    queue = sum(one.pending_rows > 0 and one.status in ("ACTIVE", "INITIALIZING") for one in tables)
    yield GaugeMetricFamily("penstock_refresh_queue", "Stream tables with changes to take in.", queue)


def _of_sources(sources: list[SourceInfo]) -> Iterator[Metric]:
    now = datetime.now(UTC)
    ages = [(one.name, None if one.moved_at is None else (now - one.moved_at).total_seconds()) for one in sources]
    yield _family("penstock_source_capture_age_seconds", "Since capture last came further.", "source", ages)
    waiting = [(one.name, one.waiting_rows) for one in sources]
    yield _family("penstock_source_waiting_rows", "Captured rows that are not readable yet.", "source", waiting)
    copies = [(one.name, one.copies) for one in sources]
    yield _family("penstock_source_copies", "Tables that are being copied.", "source", copies)


def _of_slots(slots: list[SlotHealth]) -> Iterator[Metric]:
    up = [(one.source, one.problem is None) for one in slots]
    yield _family("penstock_source_up", "1 if its slot is well.", "source", up)
    lag = [(one.source, one.lag_bytes) for one in slots]
    yield _family("penstock_source_lag_bytes", "WAL between the slot and the server's position.", "source", lag)
    kept = [(one.source, one.retained_bytes) for one in slots]
    yield _family("penstock_source_retained_wal_bytes", "WAL that the server keeps for the slot.", "source", kept)


class MetricsServer:
    """`http://host:port/metrics`, until it is closed."""

    def __init__(self, catalog: Catalog, port: int, host: str) -> None:
        try:
            self._server, self._thread = start_http_server(port, host, Metrics(catalog).registry)
        except OSError as error:
            raise ConfigError(
                f"metrics cannot be served on {host}:{port}: {error.strerror}", hint="Choose another port."
            ) from None
        self.port = int(self._server.server_port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
