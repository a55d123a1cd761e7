"""The history of verifications, as the catalog keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import frontier_of
from penstock.cut import Frontier


@dataclass(frozen=True)
class Verified:
    """One line: what was compared, and how many rows of which relation differed. `error` is why it ended early."""

    subject: str | None
    seconds: float
    frontier: Frontier | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    differences: Mapping[str, int] = field(default_factory=dict)
    repaired: Mapping[str, str] = field(default_factory=dict)
    scheduled: bool = False
    error: str | None = None
    finished_at: datetime | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and set(self.differences) <= set(self.repaired)


def record(catalog: Catalog, line: Verified) -> None:
    catalog.connection.execute(
        "INSERT INTO verifications (subject, seconds, frontier, rows, differences, repaired, scheduled, error) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (line.subject, line.seconds, None if line.frontier is None else str(line.frontier), json.dumps(line.rows),
         json.dumps(line.differences), json.dumps(line.repaired), line.scheduled, line.error),
    )  # fmt: skip


def history(catalog: Catalog, limit: int) -> list[Verified]:
    """Newest first."""
    rows = catalog.all(
        "SELECT subject, seconds, frontier, rows, differences, repaired, scheduled, error, "
        "finished_at AT TIME ZONE 'UTC' AS finished_at "
        "FROM verifications ORDER BY id DESC LIMIT %s",
        limit,
    )
    return [Verified(**{**row, "frontier": frontier_of(row["frontier"])}) for row in rows]


def last_scheduled(catalog: Catalog) -> datetime | None:
    row = catalog.one("SELECT max(finished_at) AS at FROM verifications WHERE scheduled")
    return None if row is None else row["at"]
