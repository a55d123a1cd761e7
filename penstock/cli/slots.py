"""`penstock slots`: the replication slots on the sources' servers.

A slot that belongs to a source of this home is dropped or moved past what is captured only with --force.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, is_home, opened
from penstock.cli.output import out, print_json, size, table
from penstock.errors import ConfigError, SourceError
from penstock.lsn import Lsn

if TYPE_CHECKING:
    from penstock.capture.connection import Connection
    from penstock.capture.slot import SlotStatus
    from penstock.refresh.status import SourceStatus

group = typer.Typer(no_args_is_help=True, help="Look after the replication slots on the sources' servers.")

SlotArgument = Annotated[str, typer.Argument(help="The slot.")]
SourceOption = Annotated[str | None, typer.Option("--source", "-s", help="The source whose server it is on.")]
DsnOption = Annotated[str | None, typer.Option("--dsn", help="The server, if no source of this home is on it.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Also if a source of this home needs it.")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="slots")


@group.command("list")
def list_slots(
    everyone: Annotated[bool, typer.Option("--all", "-a", help="Also slots that are not penstock's.")] = False,
    dsn: DsnOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show each source's slot, how far it is confirmed and how much WAL it holds back."""
    owners = _owners(home, catalog, needed=dsn is None)
    servers = [dsn] if dsn else list(dict.fromkeys(one.dsn for one in owners))
    by_slot = {one.slot: one.name for one in owners}
    rows = [row for server in servers for row in _rows(server, owners, by_slot, everyone or dsn is not None)]
    columns = ("source", "slot", "state", "confirmed", "behind", "WAL kept", "read by", "note")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        out().print(table(None, columns, rows, right=columns[4:6]))


@group.command("status")
def status(
    name: SlotArgument,
    source: SourceOption = None,
    dsn: DsnOption = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show everything the server tells of one slot; exit code 1 if nothing can be read from it any more."""
    from penstock.capture.slot import read_slot

    with _server(home, catalog, name, source, dsn) as (connection, owner):
        found = read_slot(connection, name)
    if found is None:
        raise SourceError(f"no replication slot {name}", hint=_recreate(owner) or "`penstock slots list` shows them.")
    facts = {
        "owner": owner.name if owner else None,
        "database": found.database,
        "plugin": found.plugin,
        "read by process": found.active_pid,
        "confirmed": found.confirmed_lsn,
        "needs WAL from": found.restart_lsn,
        "behind": size(found.lag_bytes),
        "WAL kept": size(found.retained_bytes),
        "WAL left before it is lost": size(found.safe_wal_bytes),
        "wal_status": found.wal_status,
        "failover": found.failover,
        "idle since": found.inactive_since,
        "lost": found.lost,
    }
    out().print(
        table(None, ("what", name), [(key, None if value is None else str(value)) for key, value in facts.items()])
    )
    if found.lost:
        raise typer.Exit(1)


@group.command("create")
def create(
    name: SlotArgument,
    failover: Annotated[bool, typer.Option(help="Standbys keep a copy of it (PostgreSQL 17 and later).")] = False,
    source: SourceOption = None,
    dsn: DsnOption = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Make a slot for a consumer of your own. It keeps WAL from now on until somebody reads or drops it."""
    from penstock.capture.slot import create_slot

    server = dsn or _owner(_owners(home, catalog, needed=True), name, source).dsn
    created = create_slot(server, name, timeout=60.0, failover=failover)
    created.connection.close()
    out().print(f"Slot {name} starts at {created.consistent_point}.")


@group.command("drop")
def drop(
    name: SlotArgument,
    force: ForceOption = False,
    source: SourceOption = None,
    dsn: DsnOption = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Drop a slot that nobody reads; the server then releases the WAL it kept."""
    from penstock.capture.slot import drop_slot, read_slot

    with _server(home, catalog, name, source, dsn) as (connection, owner):
        if owner is not None and not force:
            raise ConfigError(
                f"slot {name} belongs to source {owner.name}",
                hint=f"`penstock source remove {owner.name}` drops it properly; --force drops only the slot.",
            )
        if read_slot(connection, name) is None:
            raise SourceError(f"no replication slot {name}", hint="`penstock slots list` shows those that are there.")
        drop_slot(connection, name)
    out().print(f"Slot {name} is dropped.")


@group.command("advance")
def advance(
    name: SlotArgument,
    to: Annotated[str, typer.Argument(metavar="LSN", help="Where to, as PostgreSQL writes it: 16/B374D848.")],
    force: ForceOption = False,
    source: SourceOption = None,
    dsn: DsnOption = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Let the server forget changes that nobody will read: forward only, and not past what is captured here."""
    from penstock.capture.slot import advance_slot

    with _server(home, catalog, name, source, dsn) as (connection, owner):
        durable = Lsn.parse(owner.captured or "0/0") if owner else None
        moved = advance_slot(connection, name, Lsn.parse(to), durable=durable, force=force)
    if owner and durable is not None and moved.confirmed_lsn is not None and moved.confirmed_lsn > durable:
        out().print(f"[bold red]Warning:[/] the changes after {durable} are lost to {owner.name}. {_recreate(owner)}")
    out().print(f"Slot {name} stands at {moved.confirmed_lsn}.")


@group.command("recreate")
def recreate(
    name: Annotated[str, typer.Argument(help="The source whose slot was lost, or the slot.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Make a lost slot anew and copy the source's tables again. Stream tables over them must be dropped before."""
    with opened(home, catalog) as session:
        name = next((one.name for one in session.status().sources if one.slot == name), name)
        if not yes:
            typer.confirm(f"Drop the slot of {name} and copy all its tables again?", abort=True)
        session.recreate_slot(name)
        made = next(one for one in session.status().sources if one.name == name)
    out().print(f"Source {name} is captured again up to {made.captured}, with slot {made.slot}.")


@group.command("recover")
def recover(
    name: Annotated[str, typer.Argument(help="The source that was put back to an earlier moment, or its slot.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Lead a source on whose slot has passed this home, as after a restore. Stream tables stay.

    What a backup kept with --keep-log is replayed. Otherwise the source's tables are copied again, after a question.
    """
    with opened(home, catalog) as session:
        name = next((one.name for one in session.status().sources if one.slot == name), name)
        found = session.recovery(name)
        out().print(str(found), soft_wrap=True)
        if found.way == "none":
            return
        if found.way == "resync" and not yes:
            typer.confirm(f"Copy all tables of {name} again?", abort=True)
        session.recover(name)
        made = next(one for one in session.status().sources if one.name == name)
    out().print(f"Source {name} is captured again up to {made.captured}.")


@group.command("forget")
def forget(
    name: Annotated[str, typer.Argument(help="The source.")],
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Drop the slot that `penstock backup --keep-log` left on a source's server, and so release the WAL it holds."""
    from penstock.capture import recovery
    from penstock.catalog import sources

    with opened(home, catalog) as session:
        there = recovery.forget_kept(sources.get(session.catalog, name))
    out().print(f"The log of {name} is not kept any more." if there else f"No log of {name} was kept.")


def _recreate(owner: SourceStatus | None) -> str:
    return f"`penstock slots recover {owner.name}` copies its tables again." if owner else ""


def _owners(home: Path, catalog: str | None, *, needed: bool) -> tuple[SourceStatus, ...]:
    if not needed and not is_home(home, catalog):
        return ()
    with opened(home, catalog) as session:
        return session.status().sources


def _owner(owners: tuple[SourceStatus, ...], slot: str, source: str | None) -> SourceStatus:
    fit = [one for one in owners if (one.name == source if source else one.slot == slot)]
    if not fit:
        raise ConfigError(
            f"no source {source}" if source else f"slot {slot} belongs to no source of this home",
            hint="Name the server with --source or --dsn.",
        )
    return fit[0]


@contextmanager
def _server(
    home: Path, catalog: str | None, slot: str, source: str | None, dsn: str | None
) -> Iterator[tuple[Connection, SourceStatus | None]]:
    """A connection to the slot's server, and the source of this home that the slot belongs to."""
    from penstock.capture.connection import connect

    owners = _owners(home, catalog, needed=dsn is None)
    server = dsn or _owner(owners, slot, source).dsn
    with connect(server) as connection:
        yield connection, next((one for one in owners if one.slot == slot), None)


def _rows(
    dsn: str, owners: tuple[SourceStatus, ...], by_slot: dict[str, str], everyone: bool
) -> list[tuple[str | None, ...]]:
    from penstock.capture import slot as slots
    from penstock.capture.connection import connect

    ours = [one for one in owners if one.dsn == dsn]
    try:
        with connect(dsn) as connection:
            found = slots.list_slots(connection)
    except SourceError as error:
        if not ours:
            raise
        reason = str(error).partition("\n")[0]
        return [(one.name, one.slot, "unreachable", None, size(None), size(None), None, reason) for one in ours]
    shown = [_row(by_slot.get(one.name), one) for one in found if everyone or one.name in by_slot]
    gone = [one for one in ours if one.slot not in {each.name for each in found}]
    return [
        *shown,
        *((one.name, one.slot, "missing", None, size(None), size(None), None, _recreate(one)) for one in gone),
    ]


def _row(owner: str | None, found: SlotStatus) -> tuple[str | None, ...]:
    state = f"{found.wal_status or 'kept'}, {'active' if found.active else 'idle'}"
    confirmed = None if found.confirmed_lsn is None else str(found.confirmed_lsn)
    reader = f"pid {found.active_pid}" if found.active_pid else None
    return (owner, found.name, state, confirmed, size(found.lag_bytes), size(found.retained_bytes), reader, found.lost)
