"""Alerts: what a person should know, raised once while it is so.

Each goes to three places: the catalog (`status` shows it until it is cleared), the log, and whoever listens to the
channel `penstock_alert` of the catalog's server, as JSON.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import datetime

from penstock.catalog.store import Catalog, Commit

CHANNEL = "penstock_alert"
log = logging.getLogger("penstock.alert")


@dataclass(frozen=True)
class Alert:
    kind: str
    subject: str
    message: str
    hint: str
    raised_at: datetime | None = None


def tell(where: Catalog | Commit, alert: Alert) -> bool:
    """Raise an alert; True if it is new, and not only its words."""
    row = where.connection.execute(
        "INSERT INTO alerts (kind, subject, message, hint) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (kind, subject) WHERE cleared_at IS NULL "
        "DO UPDATE SET message = excluded.message, hint = excluded.hint RETURNING (xmax = 0) AS new",
        (alert.kind, alert.subject, alert.message, alert.hint),
    ).fetchone()
    assert row is not None
    if row["new"]:
        told = {"event": alert.kind, "subject": alert.subject, "message": alert.message, "hint": alert.hint}
        # NOTIFY takes less than 8000 bytes, and json writes ASCII, at most six for a character.
        text = json.dumps({name: value[:300] for name, value in told.items()})
        where.connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, text))
        log.warning("%s (%s)", alert.message, alert.hint, extra={"event": alert.kind, "subject": alert.subject})
    return bool(row["new"])


def clear(where: Catalog | Commit, kind: str, subject: str) -> None:
    """It is no longer so."""
    row = where.connection.execute(
        "UPDATE alerts SET cleared_at = clock_timestamp() WHERE kind = %s AND subject = %s AND cleared_at IS NULL "
        "RETURNING message",
        (kind, subject),
    ).fetchone()
    if row:
        log.info("no longer so: %s", row["message"])


def now(catalog: Catalog) -> list[Alert]:
    """What is so at the moment, oldest first."""
    rows = catalog.all(
        "SELECT kind, subject, message, hint, raised_at FROM alerts WHERE cleared_at IS NULL ORDER BY raised_at, id"
    )
    return [Alert(**row) for row in rows]
