"""Pins: frontiers that must stay readable until they are released."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from psycopg.rows import DictRow

from penstock.catalog.store import Catalog
from penstock.cut import Frontier
from penstock.errors import NotFound


def add(catalog: Catalog, frontier: Frontier) -> int:
    row = catalog.one("INSERT INTO pins (frontier) VALUES (%s) RETURNING id", str(frontier))
    return cast(int, cast(DictRow, row)["id"])


@dataclass(frozen=True)
class Pin:
    id: int
    frontier: Frontier
    created_at: datetime


def every(catalog: Catalog) -> list[Pin]:
    """Oldest first."""
    rows = catalog.all("SELECT id, frontier, created_at FROM pins ORDER BY created_at, id")
    return [Pin(row["id"], Frontier.parse(json.dumps(row["frontier"])), row["created_at"]) for row in rows]


def release(catalog: Catalog, pin: int) -> None:
    if catalog.one("DELETE FROM pins WHERE id = %s RETURNING id", pin) is None:
        raise NotFound(f"no pin {pin}", hint="It may have been released before.")
