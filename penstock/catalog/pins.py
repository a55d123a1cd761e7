"""Pins: frontiers that must stay readable until they are released.

A pin that is `held` for the time of one piece of work has an advisory lock beside it, which goes with the process that
has it, however that ends: a held pin without its lock is nobody's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def held(catalog: Catalog, frontier: Frontier) -> Iterator[int]:
    """A pin until the end of the block, or of the process."""
    with catalog.another() as connection:
        with connection.transaction():  # nobody sees the pin before it is locked
            row = connection.execute(
                "INSERT INTO pins (frontier, held) VALUES (%s, true) RETURNING id", (str(frontier),)
            ).fetchone()
            pin = cast(int, cast(DictRow, row)["id"])
            connection.execute("SELECT pg_advisory_lock(hashtextextended('penstock pin ' || %s, 0))", (pin,))
        try:
            yield pin
        finally:
            catalog.connection.execute("DELETE FROM pins WHERE id = %s", (pin,))


def release_abandoned(catalog: Catalog) -> int:
    """Release held pins whose process is gone; how many there were."""
    return catalog.connection.execute(
        "DELETE FROM pins WHERE held AND pg_try_advisory_xact_lock(hashtextextended('penstock pin ' || id, 0))"
    ).rowcount


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
