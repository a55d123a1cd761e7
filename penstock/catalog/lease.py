"""Leases: at most one live worker per name, and an epoch that fences off one that wakes up late.

The lock is a session-level advisory lock, so it goes with the process that held it, however that ended. The epoch is
raised at every acquisition and checked inside every commit.
"""

from __future__ import annotations

import os
import socket
from typing import cast

import psycopg
from psycopg.rows import DictRow

from penstock.errors import Busy


class Lease:
    """Held until `release`, or until the process ends."""

    def __init__(self, connection: psycopg.Connection[DictRow], name: str, epoch: int) -> None:
        self._connection = connection
        self.name = name
        self.epoch = epoch

    def release(self) -> None:
        if not self._connection.closed:
            self._connection.execute("SELECT pg_advisory_unlock(hashtextextended('penstock:' || %s, 0))", (self.name,))

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(connection: psycopg.Connection[DictRow], name: str) -> Lease:
    locked = connection.execute(
        "SELECT pg_try_advisory_lock(hashtextextended('penstock:' || %s, 0)) AS ok", (name,)
    ).fetchone()
    if not cast(DictRow, locked)["ok"]:
        held = connection.execute("SELECT holder, acquired_at FROM leases WHERE name = %s", (name,)).fetchone()
        holder = f"{held['holder']}, since {held['acquired_at']:%Y-%m-%d %H:%M:%S}" if held else "another process"
        raise Busy(
            f"{name} is in use on this home by {holder}",
            hint="One process at a time captures a source or refreshes views. Stop the other, or let it do the work.",
        )
    row = connection.execute(
        "INSERT INTO leases (name, epoch, holder) VALUES (%s, 1, %s) "
        "ON CONFLICT (name) DO UPDATE SET epoch = leases.epoch + 1, holder = excluded.holder, acquired_at = now() "
        "RETURNING epoch",
        (name, f"process {os.getpid()} on {socket.gethostname()}"),
    ).fetchone()
    return Lease(connection, name, cast(DictRow, row)["epoch"])
