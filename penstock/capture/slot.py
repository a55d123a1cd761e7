"""The replication slot: made with its snapshot, read, compared with a checkpoint, dropped when nobody uses it.

Laws: a slot moves only behind what was acknowledged. A slot that is gone, that lost WAL, or that stands past the
checkpoint is `SlotLost`: the server would silently start at its own position, and what lies between would be missing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg
from psycopg import errors as pg
from psycopg import sql

from penstock.capture.checkpoint import Checkpoint
from penstock.capture.connection import Connection, connect, connect_replication, translate, translated
from penstock.errors import AlreadyExists, PenstockError, SlotInUse, SlotLost, SourceUnreachable
from penstock.lsn import Lsn

_SLOT = """
SELECT plugin, database, active, active_pid, restart_lsn::text, confirmed_flush_lsn::text,
       to_jsonb(s) ->> 'wal_status', (pg_current_wal_lsn() - confirmed_flush_lsn)::int8,
       (pg_current_wal_lsn() - restart_lsn)::int8
FROM pg_replication_slots s WHERE slot_name = %s
"""
_OLDER = """
SELECT pid, COALESCE(usename, '?'), COALESCE(application_name, ''), now() - xact_start
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5
"""
LEAVE_TIME = 5.0  # a killed client's WAL sender needs a moment to notice


@dataclass(frozen=True)
class SlotStatus:
    plugin: str | None
    database: str | None
    active: bool
    active_pid: int | None
    restart_lsn: Lsn | None
    confirmed_lsn: Lsn | None
    wal_status: str | None  # reserved, extended, unreserved or lost
    lag_bytes: int | None  # behind the server's position
    retained_bytes: int | None  # WAL the server keeps for it


@dataclass(frozen=True)
class CreatedSlot:
    """A new slot, and the snapshot that sees exactly what committed before it; valid while `connection` is idle."""

    connection: Connection
    consistent_point: Lsn
    snapshot: str


@dataclass(frozen=True)
class Identity:
    """Whose log it is, from IDENTIFY_SYSTEM."""

    system_identifier: str
    timeline: int
    position: Lsn


def read_slot(connection: Connection, name: str) -> SlotStatus | None:
    with translated():
        row = connection.execute(_SLOT, [name]).fetchone()
    if row is None:
        return None
    plugin, database, active, pid, restart, confirmed, wal_status, lag, retained = row
    return SlotStatus(plugin, database, active, pid, _lsn(restart), _lsn(confirmed), wal_status, lag, retained)


def create_slot(dsn: str, name: str, *, timeout: float, temporary: bool = False) -> CreatedSlot:
    """Make the slot and export its snapshot. Waits for transactions older than itself, at most `timeout` each.

    A temporary one goes with its connection.
    """
    connection = connect_replication(dsn, lock_timeout=f"{timeout * 1000:.0f}")
    try:
        return _create(connection, name, temporary)
    except psycopg.Error as error:
        connection.close()
        raise _not_created(error, dsn, name, timeout) from error


def _create(connection: Connection, name: str, temporary: bool) -> CreatedSlot:
    modern = connection.info.server_version >= 150000
    options = sql.SQL("(SNAPSHOT 'export')" if modern else "EXPORT_SNAPSHOT")
    kind = sql.SQL("TEMPORARY LOGICAL" if temporary else "LOGICAL")
    command = sql.SQL("CREATE_REPLICATION_SLOT {} {} pgoutput {}").format(sql.Identifier(name), kind, options)
    row = connection.execute(command).fetchone()
    assert row is not None
    return CreatedSlot(connection, Lsn.parse(row[1]), row[2])


def slot_exists(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"replication slot {name} exists already",
        hint="Use another slot_name, restore() the checkpoint that belongs to it, or drop it: "
        f"SELECT pg_drop_replication_slot('{name}').",
    )


def _not_created(error: psycopg.Error, dsn: str, name: str, timeout: float) -> PenstockError:
    match error:
        case pg.DuplicateObject():
            return slot_exists(name)
        case pg.LockNotAvailable():
            return _blocked(dsn, name, timeout)
        case _:
            return translate(error)


def _blocked(dsn: str, name: str, timeout: float) -> SourceUnreachable:
    with connect(dsn) as connection, translated():
        older = [f"pid {pid} ({user} {app}, open for {age})" for pid, user, app, age in connection.execute(_OLDER)]
    return SourceUnreachable(
        f"slot {name} could not be made in {timeout:g} s: it waits for transactions that began before it",
        hint=f"Let them end, or end them: {'; '.join(older) or 'none is left now, try again'}.",
    )


def identify(connection: Connection) -> Identity:
    with translated():
        row = connection.execute("IDENTIFY_SYSTEM").fetchone()
    assert row is not None
    return Identity(str(row[0]), int(row[1]), Lsn.parse(row[2]))


def wait_until_free(connection: Connection, name: str, *, wait: float | None = None) -> SlotStatus | None:
    """The slot once nobody reads it."""
    deadline = time.monotonic() + (LEAVE_TIME if wait is None else wait)
    while True:
        status = read_slot(connection, name)
        if status is None or not status.active:
            return status
        if time.monotonic() > deadline:
            raise SlotInUse(
                f"replication slot {name} is in use by server process {status.active_pid}",
                hint="Another penstock, or another consumer, reads it: stop that one, or use a slot of its own. "
                f"A forgotten one ends with SELECT pg_terminate_backend({status.active_pid}).",
            )
        time.sleep(0.05)


def drop_slot(connection: Connection, name: str, *, wait: float | None = None) -> None:
    """Drop it if it is there; refuse while somebody reads it."""
    if wait_until_free(connection, name, wait=wait) is not None:
        with translated():
            connection.execute("SELECT pg_drop_replication_slot(%s)", [name])


def check_restorable(
    state: Checkpoint, database: str, slot: str, identity: Identity, status: SlotStatus | None, switch: Lsn | None
) -> None:
    """Raise unless every commit after `state` will come from this slot.

    `switch` is where the checkpoint's timeline ended, when the server is on a later one. A promoted server goes on
    with the same log up to there, so a position up to it is good; past it, we hold commits the server never had.
    """
    hint = f"Run `penstock slots recreate` for {slot}; the tables are copied again."
    if (state.slot, state.database) != (slot, database):
        raise SlotLost(
            f"the checkpoint belongs to slot {state.slot} of database {state.database}, not to {slot} of {database}",
            hint="Restore the checkpoint that was taken from this source.",
        )
    if state.system_identifier != identity.system_identifier:
        raise SlotLost(
            f"the server is another one (system {identity.system_identifier}, was {state.system_identifier})", hint=hint
        )
    if state.timeline != identity.timeline and (switch is None or state.lsn > switch):
        raise SlotLost(
            f"the server went from timeline {state.timeline} to {identity.timeline}, without the log up to {state.lsn}",
            hint=hint,
        )
    if state.lsn == 0:
        raise SlotLost("the initial copy was not finished", hint=f"Remove slot {slot} and start again.")
    if state.lsn > identity.position:
        raise SlotLost(
            f"the server's log ends at {identity.position}, before {state.lsn}: an older backup was restored", hint=hint
        )
    if status is None:
        raise SlotLost(f"replication slot {slot} does not exist", hint=hint)
    if status.plugin != "pgoutput" or status.database != database:
        raise SlotLost(
            f"replication slot {slot} is another one ({status.plugin} on database {status.database})", hint=hint
        )
    if status.wal_status == "lost" or status.restart_lsn is None or status.confirmed_lsn is None:
        raise SlotLost(f"the server dropped WAL that slot {slot} needed (wal_status=lost)", hint=hint)
    if status.confirmed_lsn > state.lsn:
        raise SlotLost(
            f"slot {slot} stands at {status.confirmed_lsn}, past the checkpoint at {state.lsn}: "
            "changes between them cannot be read any more",
            hint=hint,
        )


def timeline_end(connection: Connection, timeline: int, current: int) -> Lsn | None:
    """Where `timeline` ended in the history of the `current` one; None if it is not an ancestor."""
    with translated():
        row = connection.execute(sql.SQL("TIMELINE_HISTORY {}").format(sql.Literal(current))).fetchone()
    assert row is not None
    content = row[1] if isinstance(row[1], str) else bytes(row[1]).decode()
    return find_switch(content, timeline)


def find_switch(history: str, timeline: int) -> Lsn | None:
    r"""
    >>> find_switch("1\t0/3000060\tno recovery target specified\n", 1)
    Lsn('0/3000060')
    """
    for line in history.splitlines():
        parts = line.split()
        if len(parts) >= 2 and parts[0] == str(timeline):
            return Lsn.parse(parts[1])
    return None


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn.parse(text)
