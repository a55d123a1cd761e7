"""What can be asked about a running home, read from the catalog's views: the same that SQL clients see there.

Nothing here needs Spark; only what asks a source about its slot connects to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from penstock.capture.connection import connect
from penstock.capture.slot import read_slot
from penstock.catalog import alerts, sources, stream_tables
from penstock.catalog.alerts import Alert
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.errors import SourceError

MAX_WAL_LAG = 100 << 20  # as of a source that does not say otherwise


@dataclass(frozen=True)
class StreamTableInfo:
    """`penstock.stream_tables_info`: `staleness` is the age in seconds of what it shows; `stale` twice its schedule."""

    name: str
    status: str
    status_reason: str | None
    suspended_by: str | None
    mode: str
    schedule: str | None
    dialect: str
    cdc_mode: str | None
    query: str
    populated: bool
    round: int | None
    frontier: dict[str, str] | None
    rows: int
    pending_rows: int
    data_timestamp: datetime | None
    staleness: float | None
    schedule_seconds: float | None
    stale: bool
    last_refresh_at: datetime | None
    last_action: str | None
    last_reason: str | None
    last_seconds: float | None
    last_error: str | None
    consecutive_errors: int
    retry_at: datetime | None
    reinit_reason: str | None
    created_at: datetime


@dataclass(frozen=True)
class RefreshStats:
    """`penstock.refresh_stats`: what is known of the refreshes that history still has."""

    name: str
    refreshes: int
    successful: int
    failed: int
    no_data: int
    differential: int
    full: int
    reinitialize: int
    skipped: int
    scheduled: int
    rows_inserted: int
    rows_deleted: int
    total_seconds: float
    avg_seconds: float | None
    max_seconds: float | None
    last_refresh_at: datetime | None
    last_error_at: datetime | None
    consecutive_errors: int


@dataclass(frozen=True)
class RefreshLine:
    """`penstock.refresh_log`: one refresh."""

    id: int
    stream_table: str
    round: int | None
    action: str
    reason: str
    initiated_by: str
    changed_rows: int | None
    inserted: int
    deleted: int
    seconds: float
    frontier: dict[str, str] | None
    error: str | None
    started_at: datetime
    finished_at: datetime


@dataclass(frozen=True)
class SourceInfo:
    """`penstock.sources_info`: how far a source is captured; `waiting_rows` are captured and not readable yet."""

    name: str
    state: str
    slot: str
    publication: str
    tables: int
    captured: str | None
    readable: str | None
    moved_at: datetime | None
    waiting_rows: int
    copies: int
    created_at: datetime


@dataclass(frozen=True)
class CdcStatus:
    """`penstock.cdc_status`: how a table under a stream table is captured, and how far."""

    stream_table: str
    source: str
    table_name: str
    requested: str | None
    cdc_mode: str
    slot: str
    publication: str
    captured: str | None
    readable: str | None
    shown: str | None
    moved_at: datetime | None


@dataclass(frozen=True)
class Dependency:
    """`penstock.dependencies_info`: what a stream table reads, and which columns of it."""

    stream_table: str
    reads: str
    kind: Literal["table", "stream table"]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class SlotHealth:
    """A source's slot as its server shows it; `problem` is None while all is well."""

    source: str
    slot: str
    active: bool | None
    wal_status: str | None
    confirmed: str | None
    lag_bytes: int | None
    retained_bytes: int | None
    limit_bytes: int
    problem: str | None


@dataclass(frozen=True)
class CdcHealth:
    """How a source is captured, all in one place: the catalog's side, the server's, and what a person should know."""

    source: str
    cdc_mode: str
    state: str
    tables: int
    captured: str | None
    readable: str | None
    waiting_rows: int
    slot: SlotHealth
    alerts: tuple[Alert, ...]

    @property
    def healthy(self) -> bool:
        return self.slot.problem is None and not self.alerts


class Monitor:
    """`ps.monitor`."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def stream_tables(self) -> list[StreamTableInfo]:
        """All stream tables, by name."""
        return [StreamTableInfo(**row) for row in self._catalog.all("SELECT * FROM stream_tables_info ORDER BY name")]

    def stream_table(self, name: str) -> StreamTableInfo:
        row = self._catalog.one("SELECT * FROM stream_tables_info WHERE name = %s", name)
        return StreamTableInfo(**row) if row else self._missing(name)

    def staleness(self, name: str) -> float | None:
        """The age in seconds of what a stream table shows; None before its first refresh."""
        return self.stream_table(name).staleness

    def refresh_stats(self, name: str | None = None) -> list[RefreshStats]:
        """How often each stream table was refreshed, how, and how long that took."""
        rows = self._catalog.all(
            "SELECT * FROM refresh_stats WHERE %s::text IS NULL OR name = %s ORDER BY name", name, name
        )
        if name is not None and not rows:
            self._missing(name)
        return [RefreshStats(**row) for row in rows]

    def history(self, names: Sequence[str] | None = None, limit: int = 100) -> list[RefreshLine]:
        """Refreshes of some stream tables, or of all, newest first."""
        for name in names or ():
            stream_tables.get(self._catalog, name)
        wanted = None if names is None else list(names)
        rows = self._catalog.all(
            "SELECT * FROM refresh_log WHERE %s::text[] IS NULL OR stream_table = ANY(%s) ORDER BY id DESC LIMIT %s",
            wanted, wanted, limit,
        )  # fmt: skip
        return [RefreshLine(**row) for row in rows]

    def lines_after(self, line: int) -> list[RefreshLine]:
        """Refreshes with a higher id, oldest first."""
        return [
            RefreshLine(**row) for row in self._catalog.all("SELECT * FROM refresh_log WHERE id > %s ORDER BY id", line)
        ]

    def sources(self) -> list[SourceInfo]:
        """How far every source is captured, as the catalog knows it."""
        return [SourceInfo(**row) for row in self._catalog.all("SELECT * FROM sources_info ORDER BY name")]

    def cdc_status(self) -> list[CdcStatus]:
        """How the tables under each stream table are captured."""
        rows = self._catalog.all("SELECT * FROM cdc_status ORDER BY stream_table, source, table_name")
        return [CdcStatus(**row) for row in rows]

    def dependencies(self) -> list[Dependency]:
        """What each stream table reads."""
        rows = self._catalog.all("SELECT * FROM dependencies_info ORDER BY stream_table, reads")
        return [Dependency(**{**row, "columns": tuple(row["columns"])}) for row in rows]

    def slot_health(self) -> list[SlotHealth]:
        """Ask every source's server about its slot."""
        return [slot_health(source) for source in sources.every(self._catalog)]

    def cdc_health(self) -> list[CdcHealth]:
        """Every source with its slot, as its server shows it now, and the alerts about it."""
        slots = {slot.source: slot for slot in self.slot_health()}
        told = alerts.now(self._catalog)
        return [
            CdcHealth(
                one.name, "wal", one.state, one.tables, one.captured, one.readable, one.waiting_rows, slots[one.name],
                tuple(alert for alert in told if alert.subject == one.name),
            )
            for one in self.sources()
        ]  # fmt: skip

    def _missing(self, name: str) -> Any:
        stream_tables.get(self._catalog, name)  # raises what names the known ones
        raise AssertionError(name)


def slot_health(source: Source) -> SlotHealth:
    """What a source's server says of its slot; a server that cannot be asked is a problem, not an error."""
    limit = int(source.options.get("max_wal_lag_bytes", MAX_WAL_LAG))
    try:
        with connect(source.dsn) as connection:
            slot = read_slot(connection, source.slot)
    except SourceError as error:
        return SlotHealth(source.name, source.slot, None, None, None, None, None, limit, error.message)
    if slot is None:
        return SlotHealth(
            source.name, source.slot, None, None, None, None, None, limit, f"the slot {source.slot} does not exist"
        )
    problem = slot.lost
    if problem is None and (slot.retained_bytes or 0) > limit:
        problem = f"the server keeps {slot.retained_bytes} bytes of WAL for it, more than {limit}"
    confirmed = None if slot.confirmed_lsn is None else str(slot.confirmed_lsn)
    return SlotHealth(
        source.name, source.slot, slot.active, slot.wal_status, confirmed, slot.lag_bytes, slot.retained_bytes, limit,
        problem,
    )  # fmt: skip
