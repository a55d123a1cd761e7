"""What `status` tells: read from the catalog and, for the lag, from the sources; never with Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime

from penstock.catalog import alerts, changelog, publishing, relations, source_events, sources
from penstock.catalog.alerts import Alert
from penstock.catalog.changelog import Size
from penstock.catalog.publishing import Standing
from penstock.catalog.source_events import SourceEvent
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.refresh.monitor import Monitor, StreamTableInfo, slot_health


@dataclass(frozen=True)
class SourceStatus:
    """`lag_bytes` is None when the server cannot be asked; `problem` then says why."""

    name: str
    dsn: str = field(repr=False)  # may hold a password
    state: str
    slot: str
    tables: tuple[str, ...]
    captured: str | None
    readable: str | None
    lag_bytes: int | None
    problem: str | None
    events: tuple[SourceEvent, ...] = ()  # newest first


@dataclass(frozen=True)
class StreamTableStatus:
    """`freshness` is the age in seconds of what the stream table shows, `action` to `error` are of its last refresh."""

    name: str
    mode: str
    schedule: str | None
    status: str
    status_reason: str | None
    action: str | None
    reason: str | None
    rows: int
    pending_rows: int  # captured changes of its tables that are not in it yet
    seconds: float | None
    freshness: float | None
    stale: bool  # that is more than twice its schedule
    frontier: str | None
    consecutive_errors: int
    retry_at: datetime | None
    error: str | None
    reinit_reason: str | None  # why its next refresh computes it anew


@dataclass(frozen=True)
class Status:
    sources: tuple[SourceStatus, ...]
    stream_tables: tuple[StreamTableStatus, ...]
    changelog: Size
    alerts: tuple[Alert, ...]
    delta_tables: tuple[Standing, ...] = ()


def status(catalog: Catalog) -> Status:
    return Status(
        tuple(_source(catalog, source) for source in sources.every(catalog)),
        tuple(_stream_table(found) for found in Monitor(catalog).stream_tables()),
        changelog.size(catalog),
        tuple(alerts.now(catalog)),
        tuple(publishing.standing(catalog)),
    )


def _source(catalog: Catalog, source: Source) -> SourceStatus:
    slot = slot_health(source)
    return SourceStatus(
        source.name,
        source.dsn,
        source.state,
        source.slot,
        tuple(relation.table for relation in relations.of_source(catalog, source.name)),
        None if source.captured is None else str(source.captured),
        None if source.settled is None else str(source.settled),
        slot.lag_bytes,
        slot.problem,
        tuple(source_events.recent(catalog, source.id)),
    )


def _stream_table(found: StreamTableInfo) -> StreamTableStatus:
    return StreamTableStatus(
        found.name,
        found.mode,
        found.schedule,
        found.status,
        found.status_reason,
        found.last_action,
        found.last_reason,
        found.rows,
        found.pending_rows,
        found.last_seconds,
        found.staleness,
        found.stale,
        None if found.frontier is None else json.dumps(found.frontier),
        found.consecutive_errors,
        found.retry_at,
        found.last_error,
        found.reinit_reason,
    )
