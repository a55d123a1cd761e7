"""What happened to a source that its owner should know: changed shapes, tables copied again, left out or gone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.catalog.store import Catalog, Commit
from penstock.lsn import Lsn


@dataclass(frozen=True)
class SourceEvent:
    """An `alert` asks for a decision, or tells of something that cannot be undone here."""

    table: str
    kind: str
    detail: str
    lsn: Lsn | None = None
    alert: bool = False
    at: datetime | None = None


def record(where: Commit | Catalog, source_id: int, event: SourceEvent) -> None:
    where.connection.execute(
        "INSERT INTO source_events (source_id, table_name, kind, detail, lsn, alert) VALUES (%s, %s, %s, %s, %s, %s)",
        (source_id, event.table, event.kind, event.detail, event.lsn, event.alert),
    )


def recent(catalog: Catalog, source_id: int, limit: int = 20) -> list[SourceEvent]:
    """Newest first."""
    rows = catalog.all(
        'SELECT table_name AS "table", kind, detail, lsn, alert, at FROM source_events WHERE source_id = %s '
        "ORDER BY id DESC LIMIT %s",
        source_id, limit,
    )  # fmt: skip
    return [SourceEvent(**{**row, "lsn": None if row["lsn"] is None else Lsn(row["lsn"])}) for row in rows]


def record_once(catalog: Catalog, source_id: int, event: SourceEvent) -> None:
    """Unless the newest event of the table says the same."""
    row = catalog.one(
        "SELECT kind, detail FROM source_events WHERE source_id = %s AND table_name = %s ORDER BY id DESC LIMIT 1",
        source_id, event.table,
    )  # fmt: skip
    if row is None or (row["kind"], row["detail"]) != (event.kind, event.detail):
        record(catalog, source_id, event)
