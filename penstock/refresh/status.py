"""What `status` tells: read from the catalog and, for the lag, from the sources; never with Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock.capture.connection import connect
from penstock.capture.slot import read_slot
from penstock.catalog import alerts, changelog, relations, source_events, sources, stream_tables
from penstock.catalog.alerts import Alert
from penstock.catalog.changelog import Size
from penstock.catalog.source_events import SourceEvent
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import StreamTable
from penstock.errors import SourceError


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
    """`freshness` is the age in seconds of what the stream table shows."""

    name: str
    mode: str
    schedule: str | None
    status: str
    action: str | None
    reason: str | None
    rows: int
    seconds: float | None
    freshness: float | None
    frontier: str | None


@dataclass(frozen=True)
class Status:
    sources: tuple[SourceStatus, ...]
    stream_tables: tuple[StreamTableStatus, ...]
    changelog: Size
    alerts: tuple[Alert, ...]


def status(catalog: Catalog) -> Status:
    return Status(
        tuple(_source(catalog, source) for source in sources.every(catalog)),
        tuple(_stream_table(catalog, table) for table in stream_tables.every(catalog)),
        changelog.size(catalog),
        tuple(alerts.now(catalog)),
    )


def _source(catalog: Catalog, source: Source) -> SourceStatus:
    lag, problem = None, None
    try:
        with connect(source.dsn) as connection:
            slot = read_slot(connection, source.slot)
        if slot is None:
            problem = f"the slot {source.slot} does not exist"
        else:
            lag = slot.lag_bytes
    except SourceError as error:
        problem = error.message
    return SourceStatus(
        source.name,
        source.dsn,
        source.state,
        source.slot,
        tuple(relation.table for relation in relations.of_source(catalog, source.name)),
        None if source.captured is None else str(source.captured),
        None if source.settled is None else str(source.settled),
        lag,
        problem,
        tuple(source_events.recent(catalog, source.id)),
    )


def _stream_table(catalog: Catalog, table: StreamTable) -> StreamTableStatus:
    lines = stream_tables.history(catalog, table.relation_id, 1)
    last = lines[0] if lines else None
    age = (datetime.now(UTC) - last.finished_at).total_seconds() if last and last.finished_at else None
    return StreamTableStatus(
        table.name,
        table.mode,
        table.schedule,
        table.status,
        last.action if last else None,
        last.reason if last else None,
        stream_tables.row_count(catalog, table.relation_id),
        last.seconds if last else None,
        age,
        None if table.frontier is None else str(table.frontier),
    )
