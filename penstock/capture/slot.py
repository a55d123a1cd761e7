"""The replication slot: made with its snapshot, read, compared with a checkpoint, dropped when nobody uses it.

Laws: a slot moves only behind what was acknowledged. A slot that is gone, that lost WAL, or that stands past the
checkpoint is `SlotLost`: the server would silently start at its own position, and what lies between would be missing.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg import sql

from penstock.capture.checkpoint import Checkpoint
from penstock.capture.connection import Connection, connect, connect_replication, translate, translated
from penstock.errors import (
    AlreadyExists,
    ConfigError,
    NotFound,
    PenstockError,
    SlotInUse,
    SlotLost,
    SourceError,
    SourceUnreachable,
)
from penstock.lsn import Lsn

# Columns that older servers lack are read through to_jsonb, which gives NULL for them.
_SLOTS = """
SELECT s.slot_name::text, s.plugin, s.database, s.active, s.active_pid, s.restart_lsn::text,
       s.confirmed_flush_lsn::text, j ->> 'wal_status',
       (here.lsn - s.confirmed_flush_lsn)::int8, (here.lsn - s.restart_lsn)::int8, s.temporary,
       (j ->> 'safe_wal_size')::int8, COALESCE((j ->> 'conflicting')::bool, false) AND pg_is_in_recovery(),
       j ->> 'invalidation_reason',
       (j ->> 'inactive_since')::timestamptz, COALESCE((j ->> 'failover')::bool, false)
FROM pg_replication_slots s CROSS JOIN LATERAL to_jsonb(s) AS j
CROSS JOIN (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)
           AS here(lsn)
WHERE s.slot_type = 'logical' AND (%(name)s::text IS NULL OR s.slot_name = %(name)s) ORDER BY 1
"""
_OLDER = """
SELECT pid, COALESCE(usename, '?'), COALESCE(application_name, ''), now() - xact_start
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 5
"""
_RECREATE = "Run `penstock slots recreate` for {}; the tables are copied again."
_RECOVER = "Run `penstock slots recover` for {}: the tables are copied again, stream tables over them stay."
LEAVE_TIME = 5.0  # a killed client's WAL sender needs a moment to notice


@dataclass(frozen=True)
class SlotStatus:
    """A slot as the server shows it; what a server of its age cannot tell is None or False."""

    plugin: str | None
    database: str | None
    active: bool
    active_pid: int | None
    restart_lsn: Lsn | None
    confirmed_lsn: Lsn | None
    wal_status: str | None  # reserved, extended, unreserved or lost (13 and later)
    lag_bytes: int | None  # behind the server's position
    retained_bytes: int | None  # WAL the server keeps for it
    temporary: bool = False
    safe_wal_bytes: int | None = None  # WAL that may still be written before the slot is lost; None is no limit
    conflicting: bool = False  # with recovery, on a standby; 16 says so of a slot on a primary that lost its WAL, too
    invalidation_reason: str | None = None  # 17 and later
    inactive_since: datetime | None = None  # 17 and later
    failover: bool = False  # standbys keep a copy of it (17 and later)
    name: str = ""

    @property
    def lost(self) -> str | None:
        """Why nothing can be read from it any more; None if it can."""
        if self.invalidation_reason is not None:
            return _INVALIDATED.get(self.invalidation_reason, f"the server invalidated it: {self.invalidation_reason}")
        if self.conflicting:
            return "it conflicted with recovery on this standby"
        if self.wal_status == "lost":
            return f"{_INVALIDATED['wal_removed']} (wal_status=lost)"
        if self.restart_lsn is None or self.confirmed_lsn is None:
            return "it has no position"
        return None


_INVALIDATED = {
    "wal_removed": "the server dropped WAL that it needed; max_slot_wal_keep_size limits what slots may hold back",
    "rows_removed": "the server removed catalog rows that it needed; hot_standby_feedback on a standby prevents that",
    "wal_level_insufficient": "the server no longer had wal_level=logical",
    "idle_timeout": "nobody read it for longer than idle_replication_slot_timeout",
}


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

    def is_of(self, state: Checkpoint) -> bool:
        """Whether the checkpoint was taken from this log, with no failover since."""
        return (self.system_identifier, self.timeline) == (state.system_identifier, state.timeline)


def read_slot(connection: Connection, name: str) -> SlotStatus | None:
    return next(iter(list_slots(connection, name)), None)


def list_slots(connection: Connection, name: str | None = None) -> list[SlotStatus]:
    """The logical slots of the server, of all its databases."""
    with translated():
        return [_status(*row) for row in connection.execute(_SLOTS, {"name": name})]


def _status(
    name: str, plugin: str, database: str, active: bool, pid: int, restart: str, confirmed: str, *rest: Any
) -> SlotStatus:
    status = SlotStatus(plugin, database, active, pid, _lsn(restart), _lsn(confirmed), *rest)
    return replace(status, name=name)


def create_slot(
    dsn: str,
    name: str,
    *,
    timeout: float,
    temporary: bool = False,
    failover: bool = False,
    two_phase: bool = False,
) -> CreatedSlot:
    """Make the slot and export its snapshot. Waits for transactions older than itself, at most `timeout` each.

    A temporary one goes with its connection. With `failover`, standbys that synchronise slots keep a copy of it. With
    `two_phase`, PREPARE TRANSACTION is decoded when it happens.
    """
    connection = connect_replication(dsn, lock_timeout=f"{timeout * 1000:.0f}")
    try:
        check_failover(connection, failover)
        check_two_phase(connection, two_phase)
        return _create(connection, name, temporary, failover, two_phase)
    except psycopg.Error as error:
        connection.close()
        raise _not_created(error, dsn, name, timeout) from error
    except PenstockError:
        connection.close()
        raise


def check_failover(connection: Connection, failover: bool) -> None:
    version = connection.info.server_version
    if failover and version < 170000:
        raise SourceError(
            f"PostgreSQL {version // 10000} has no failover slots",
            hint="They came with 17. Leave failover out; after a failover the tables are copied again.",
        )


def check_two_phase(connection: Connection, two_phase: bool) -> None:
    version = connection.info.server_version
    if two_phase and version < 150000:
        raise SourceError(
            f"PostgreSQL {version // 10000} does not send prepared transactions to a subscriber",
            hint="That came with 15. Leave two_phase out; prepared transactions then come when they commit.",
        )


def _create(connection: Connection, name: str, temporary: bool, failover: bool, two_phase: bool) -> CreatedSlot:
    options = sql.SQL("EXPORT_SNAPSHOT")
    if connection.info.server_version >= 150000:
        asked = ["SNAPSHOT 'export'"] + ["FAILOVER"] * failover + ["TWO_PHASE"] * two_phase
        options = sql.SQL("(" + ", ".join(asked) + ")")
    kind = sql.SQL("TEMPORARY LOGICAL" if temporary else "LOGICAL")
    command = sql.SQL("CREATE_REPLICATION_SLOT {} {} pgoutput {}").format(sql.Identifier(name), kind, options)
    row = connection.execute(command).fetchone()
    assert row is not None
    return CreatedSlot(connection, Lsn.parse(row[1]), row[2])


def advance_slot(
    connection: Connection, name: str, to: Lsn, *, durable: Lsn | None = None, force: bool = False
) -> SlotStatus:
    """Let the server forget changes up to `to` without anybody having read them here.

    Only forward, only while nobody reads the slot, and past `durable`, what its owner holds, only with `force`.
    """
    status = wait_until_free(connection, name)
    if status is None:
        raise NotFound(f"no replication slot {name}", hint="`penstock slots list` shows those that are there.")
    if status.lost or status.confirmed_lsn is None:
        raise SlotLost(f"replication slot {name} cannot be moved: {status.lost}", hint="Drop it and make it anew.")
    if to <= status.confirmed_lsn:
        raise ConfigError(f"slot {name} stands at {status.confirmed_lsn} already", hint="A slot moves only forward.")
    if durable is not None and to > durable and not force:
        raise ConfigError(
            f"{to} lies past {durable}, up to which the changes of slot {name} are captured",
            hint="What lies between would be lost to its source. Capture first, or use --force and copy again.",
        )
    end = status.confirmed_lsn + (status.lag_bytes or 0)
    if to > end:
        raise ConfigError(f"{to} lies past the end of the server's log at {Lsn(end)}", hint=f"At most {Lsn(end)}.")
    with translated():
        connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [name, str(to)])
    moved = read_slot(connection, name)
    assert moved is not None
    return moved


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


def identify_after(replication: Connection, state: Checkpoint) -> tuple[Identity, Lsn | None]:
    """Whose log it is, and where the checkpoint's timeline ended in it, if the server is on a later one."""
    identity = identify(replication)
    if state.system_identifier != identity.system_identifier or state.timeline >= identity.timeline:
        return identity, None
    return identity, timeline_end(replication, state.timeline, identity.timeline)


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


def set_failover(dsn: str, name: str) -> None:
    """Have standbys keep a copy of a slot that was made in SQL, or as a copy of another one."""
    command = sql.SQL("ALTER_REPLICATION_SLOT {} (FAILOVER true)").format(sql.Identifier(name))
    with closing(connect_replication(dsn)) as replication, translated():
        replication.execute(command)


def drop_slot(connection: Connection, name: str, *, wait: float | None = None) -> None:
    """Drop it if it is there; refuse while somebody reads it."""
    if wait_until_free(connection, name, wait=wait) is not None:
        with translated():
            connection.execute("SELECT pg_drop_replication_slot(%s)", [name])


def check_restorable(
    state: Checkpoint, database: str, slot: str, identity: Identity, status: SlotStatus | None, switch: Lsn | None
) -> None:
    """Raise unless every commit after `state` will come from this slot; `switch` as for `check_log`."""
    if (state.slot, state.database) != (slot, database):
        raise SlotLost(
            f"the checkpoint belongs to slot {state.slot} of database {state.database}, not to {slot} of {database}",
            hint="Restore the checkpoint that was taken from this source.",
        )
    check_log(state, identity, switch)
    if state.lsn == 0:
        raise SlotLost("the initial copy was not finished", hint=f"Remove slot {slot} and start again.")
    if status is None:
        raise SlotLost(f"replication slot {slot} does not exist", hint=_RECOVER.format(slot))
    if status.plugin != "pgoutput" or status.database != database:
        raise SlotLost(
            f"replication slot {slot} is another one ({status.plugin} on database {status.database})",
            hint=_RECREATE.format(slot),
        )
    if status.lost or status.confirmed_lsn is None:
        raise SlotLost(f"replication slot {slot} is lost: {status.lost}", hint=_RECOVER.format(slot))
    if status.confirmed_lsn > state.lsn:
        raise SlotLost(
            f"slot {slot} stands at {status.confirmed_lsn}, past the checkpoint at {state.lsn}: "
            "changes between them cannot be read any more",
            hint="Either somebody else reads it, who must stop, or the home was put back to an earlier moment. Run "
            f"`penstock slots recover` for {slot}: it replays if a backup kept the log, or copies the tables again.",
        )


def check_log(state: Checkpoint, identity: Identity, switch: Lsn | None) -> None:
    """Raise unless the server's log has everything up to `state`.

    `switch` is where the checkpoint's timeline ended, when the server is on a later one. A promoted server goes on
    with the same log up to there, so a position up to it is good; past it, we hold commits the server never had.
    """
    hint = _RECOVER.format(state.slot)
    if state.system_identifier != identity.system_identifier:
        raise SlotLost(
            f"the server is another one (system {identity.system_identifier}, was {state.system_identifier})",
            hint=f"Positions in another server's log mean nothing here, also after pg_upgrade. {hint}",
        )
    if state.timeline != identity.timeline and (switch is None or state.lsn > switch):
        parted = "" if switch is None else f": they part at {switch}"
        raise SlotLost(
            f"the server went from timeline {state.timeline} to {identity.timeline}, without the log up to {state.lsn}"
            f"{parted}",
            hint=f"A standby was promoted that lacks commits which are captured here. {hint}",
        )
    if state.lsn > identity.position:
        raise SlotLost(
            f"the server's log ends at {identity.position}, before {state.lsn}: an older backup was restored",
            hint=_RECREATE.format(state.slot),
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
