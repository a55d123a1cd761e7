"""`penstock slots`: the replication slots on the sources' servers."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, size, table
from penstock.errors import NotYet, SourceError

group = typer.Typer(no_args_is_help=True, help="Look after the replication slots on the sources' servers.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="slots")


@group.command("list")
def list_slots(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Show each source's slot, how far it is confirmed and how much WAL it holds back."""
    with opened(home, catalog) as session:
        sources = session.status().sources
    rows = [(one.name, *slot_facts(one.dsn, one.slot)) for one in sources]
    columns = ("source", "slot", "state", "confirmed", "behind", "WAL kept")
    out().print(table(None, columns, rows, right=columns[4:]))


@group.command("recreate")
def recreate(name: Annotated[str, typer.Argument(help="The source whose slot was lost.")]) -> None:
    """Make a lost slot anew and copy the source's tables again (not available yet)."""
    raise NotYet(
        "penstock slots recreate",
        hint=f"Until then, `penstock source remove {name}` and `penstock source add {name} …` do the same.",
    )


def slot_facts(dsn: str, slot: str) -> tuple[str, str, str | None, str, str]:
    """Slot, state, confirmed position, how far that is behind, and how much WAL the server keeps for it."""
    from penstock.capture.connection import connect
    from penstock.capture.slot import read_slot

    try:
        with connect(dsn) as connection:
            found = read_slot(connection, slot)
    except SourceError:
        return slot, "unreachable", None, size(None), size(None)
    if found is None:
        return slot, "missing", None, size(None), size(None)
    state = f"{found.wal_status}, {'active' if found.active else 'idle'}"
    confirmed = None if found.confirmed_lsn is None else str(found.confirmed_lsn)
    return slot, state, confirmed, size(found.lag_bytes), size(found.retained_bytes)
