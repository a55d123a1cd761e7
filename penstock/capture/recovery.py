"""A home that stands before its slot: it was put back to an earlier moment, or somebody else read from the slot.

What the slot has passed cannot be read from it again. The same holds where the slot is gone, and where the server's log
is not the one that was captured: a standby was promoted that lacks some of it, or pg_upgrade began a new one. Two ways
lead on:

- replay, if another slot on the server still stands at or before the home's position: one that a backup left there for
  this (`kept_slot`). The source's slot is made anew as a copy of it, and nothing is lost.
- re-sync otherwise: all tables of the source are copied again, and capture goes on from there. Stream tables over them
  stay and are computed anew at their next refresh.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from penstock.capture.checkpoint import Checkpoint
from penstock.capture.connection import Connection, connect, connect_replication, translated
from penstock.capture.slot import check_log, drop_slot, identify_after, read_slot, set_failover
from penstock.catalog.sources import Source
from penstock.errors import SlotLost, SourceError
from penstock.failpoint import hit
from penstock.lsn import Lsn

Way = Literal["none", "replay", "resync"]
_COPY = "SELECT pg_copy_logical_replication_slot(%s, %s)"
_OLDEST = 120000  # that can copy a slot


@dataclass(frozen=True)
class Recovery:
    """Where a source's home and slot stand, and the best way on: none needed, replay from `kept`, or re-sync."""

    source: str
    way: Way
    position: Lsn
    slot: Lsn | None  # None: it is gone
    kept: str | None = None
    other_log: str | None = None  # why what is captured here is not in the server's log

    def __str__(self) -> str:
        if self.other_log is not None:
            return (
                f"source {self.source} is captured here up to {self.position}, but {self.other_log}: its tables "
                "must be copied again"
            )
        stands = "is gone" if self.slot is None else f"stands at {self.slot}"
        here = f"source {self.source} is captured here up to {self.position}, its slot {stands}"
        match self.way:
            case "none":
                return f"{here}: nothing is missing"
            case "replay":
                return f"{here}; slot {self.kept} still has the changes between: they can be replayed"
            case "resync":
                return f"{here}; the changes between cannot be read any more: its tables must be copied again"


def kept_slot(slot: str) -> str:
    """The slot that a backup leaves on the server, so that what came after it can be replayed.

    >>> kept_slot("penstock_shop_a1b2c3")
    'penstock_shop_a1b2c3_kept'
    """
    return f"{slot[:58]}_kept"


def keep(source: Source) -> Lsn:
    """Leave a copy of the slot where it stands now, in place of the one of an earlier backup; where that is."""
    name = kept_slot(source.slot)
    with connect(source.dsn) as connection:
        _check_can_copy(connection, source)
        drop_slot(connection, name)
        with translated():
            connection.execute(_COPY, (source.slot, name))
        found = read_slot(connection, name)
    assert found is not None
    assert found.confirmed_lsn is not None
    return found.confirmed_lsn


def forget_kept(source: Source) -> bool:
    """Drop what a backup left; whether there was one."""
    with connect(source.dsn) as connection:
        there = read_slot(connection, kept_slot(source.slot)) is not None
        drop_slot(connection, kept_slot(source.slot))
    return there


def look(source: Source) -> Recovery:
    """Compare the home with the server."""
    assert source.checkpoint is not None
    state = Checkpoint.from_json(source.checkpoint)
    position = state.lsn
    other_log = _other_log(source, state)
    with connect(source.dsn) as connection:
        found = read_slot(connection, source.slot)
        stands = None if found is None or found.lost else found.confirmed_lsn
        if other_log is not None:
            return Recovery(source.name, "resync", position, stands, other_log=other_log)
        if stands is not None and stands <= position:
            return Recovery(source.name, "none", position, stands)
        kept = _usable(connection, source, position)
    return Recovery(source.name, "replay" if kept else "resync", position, stands, kept)


def replay(source: Source, recovery: Recovery) -> None:
    """Make the source's slot anew where the kept one stands; under its lease. May be repeated after a crash."""
    assert recovery.kept is not None
    with connect(source.dsn) as connection:
        drop_slot(connection, source.slot)
        hit("recover.slot_dropped")
        with translated():
            connection.execute(_COPY, (recovery.kept, source.slot))
    _keep_failover(source)


def renew(source: Source, recovery: Recovery) -> None:
    """A slot for tables that will be copied again: the one there is, or one made anew; under its lease."""
    if recovery.slot is None:
        with connect(source.dsn) as connection:
            drop_slot(connection, source.slot)
            hit("recover.slot_dropped")
            with translated():
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (source.slot,))
    _keep_failover(source)


def _keep_failover(source: Source) -> None:
    if source.options.get("failover"):
        set_failover(source.dsn, source.slot)


def _usable(connection: Connection, source: Source, position: Lsn) -> str | None:
    """The kept slot, if it stands at or before the position; a copy of one would not be two-phase."""
    found = read_slot(connection, kept_slot(source.slot))
    if found is None or found.lost or found.confirmed_lsn is None or source.options.get("two_phase"):
        return None
    return found.name if found.confirmed_lsn <= position else None


def check_server(source: Source) -> None:
    """Raise unless the server's log is the one that was captured: before anything is done that its tables call for."""
    assert source.checkpoint is not None
    state = Checkpoint.from_json(source.checkpoint)
    with closing(connect_replication(source.dsn)) as replication:
        check_log(state, *identify_after(replication, state))


def positions_go_back(source: Source, here: Lsn, captured: Lsn) -> SlotLost:
    return SlotLost(
        f"the server's log ends at {here}, before {captured}: positions of source {source.name} would go back",
        hint=f"Run `penstock slots recreate {source.name}`: it begins anew, without the stream tables over it. They "
        f"can stay with `penstock slots recover {source.name}` once the server has written as much as that.",
    )


def _other_log(source: Source, state: Checkpoint) -> str | None:
    """Why the server's log is not the one that was captured; None if it is. Refused where positions would go back."""
    with closing(connect_replication(source.dsn)) as replication:
        identity, switch = identify_after(replication, state)
    if state.lsn > identity.position:
        raise positions_go_back(source, identity.position, state.lsn)
    try:
        check_log(state, identity, switch)
    except SlotLost as lost:
        return lost.message
    return None


def _check_can_copy(connection: Connection, source: Source) -> None:
    if connection.info.server_version < _OLDEST:
        raise SourceError(
            f"the server of {source.name} cannot keep a copy of a slot",
            hint="PostgreSQL 12 and later can. Back up without it: after a restore the tables are copied again.",
        )
    if source.options.get("two_phase"):
        raise SourceError(
            f"a copy of the slot of {source.name} would not be two-phase",
            hint="Back up without it: after a restore the tables are copied again.",
        )
