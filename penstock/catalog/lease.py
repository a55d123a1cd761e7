"""Leases: at most one live worker per name, and an epoch that fences off one that wakes up late.

The lock is a session-level advisory lock, so it goes with the process that held it, however that ended. The epoch is
raised at every acquisition and checked inside every commit.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from datetime import datetime
from typing import cast

import psutil
import psycopg
from psycopg.rows import DictRow

from penstock.errors import Busy

log = logging.getLogger("penstock.catalog")


class Lease:
    """Held until `release`, or until the process ends."""

    def __init__(self, connection: psycopg.Connection[DictRow], name: str, epoch: int, held: set[str]) -> None:
        self._connection = connection
        self._held = held
        self.name = name
        self.epoch = epoch

    def release(self) -> None:
        self._held.discard(self.name)
        if self._connection.closed:
            return
        try:
            self._connection.execute("SELECT pg_advisory_unlock(hashtextextended('penstock:' || %s, 0))", (self.name,))
        except psycopg.OperationalError as error:
            log.info("the catalog's server is gone, and the lock on %s with it: %s", self.name, error)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(connection: psycopg.Connection[DictRow], name: str, held: set[str]) -> Lease:
    """`held` are the names this connection has: PostgreSQL would grant its own session a second lock."""
    locked = (
        name not in held
        and connection.execute(
            "SELECT pg_try_advisory_lock(hashtextextended('penstock:' || %s, 0)) AS ok", (name,)
        ).fetchone()
    )
    if not locked or not locked["ok"]:
        row = _recorded(connection, name)
        holder = f"{row['holder']}, since {row['acquired_at']:%Y-%m-%d %H:%M:%S}" if row else "another process"
        raise Busy(
            f"{name} is in use on this home by {holder}",
            hint="One process at a time captures a source or refreshes views. Stop the other, or let it do the work.",
        )
    row = connection.execute(
        "INSERT INTO leases (name, epoch, holder) VALUES (%s, 1, %s) "
        "ON CONFLICT (name) DO UPDATE SET epoch = leases.epoch + 1, holder = excluded.holder, acquired_at = now() "
        "RETURNING epoch",
        (name, _holder(os.getpid())),
    ).fetchone()
    held.add(name)
    return Lease(connection, name, cast(DictRow, row)["epoch"], held)


def is_going(connection: psycopg.Connection[DictRow], name: str) -> bool:
    """Whether the process that holds it has ended: its server has yet to notice, and then lets go of the lock."""
    row = _recorded(connection, name)
    if row is None or (process := re.match(r"process (\d+) on ", row["holder"])) is None:
        return False
    pid = int(process[1])
    return bool(row["holder"] == _holder(pid)) and _has_ended(pid, row["acquired_at"])


def _has_ended(pid: int, since: datetime) -> bool:
    """Also where another process has its number by now: in a container, the next one has it as a rule."""
    try:
        return bool(psutil.Process(pid).create_time() > since.timestamp())
    except psutil.NoSuchProcess:
        return True


def _recorded(connection: psycopg.Connection[DictRow], name: str) -> DictRow | None:
    return connection.execute("SELECT holder, acquired_at FROM leases WHERE name = %s", (name,)).fetchone()


def _holder(pid: int) -> str:
    return f"process {pid} on {socket.gethostname()}"
