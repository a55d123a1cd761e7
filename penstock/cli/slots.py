"""`penstock slots`: the replication slots on the sources' servers."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, size, table
from penstock.errors import NotYet

group = typer.Typer(no_args_is_help=True, help="Look after the replication slots on the sources' servers.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="slots")


@group.command("list")
def list_slots(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Show each source's slot, how far it is confirmed and how much WAL it holds back."""
    with opened(home, catalog) as session:
        sources = session.status().sources
    rows = [(one.name, *slot_facts(one.dsn, one.slot)) for one in sources]
    columns = ("source", "slot", "state", "confirmed", "WAL kept", "safe for")
    out().print(table(None, columns, rows, right=columns[4:]))


@group.command("recreate")
def recreate(name: Annotated[str, typer.Argument(help="The source whose slot was lost.")]) -> None:
    """Make a lost slot anew and copy the source's tables again (not available yet)."""
    raise NotYet(
        "penstock slots recreate",
        hint=f"Until then, `penstock source remove {name}` and `penstock source add {name} …` do the same.",
    )


_FACTS = """
SELECT wal_status, active, confirmed_flush_lsn,
       pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint AS kept, safe_wal_size
FROM pg_replication_slots WHERE slot_name = %s
"""


def slot_facts(dsn: str, slot: str) -> tuple[str, str, str | None, str, str]:
    """Slot, state, confirmed position, WAL kept and how much more may come before it is lost."""
    import psycopg

    try:
        with psycopg.connect(dsn, connect_timeout=5) as connection:
            row = connection.execute(_FACTS, (slot,)).fetchone()
    except psycopg.OperationalError:
        return slot, "unreachable", None, size(None), size(None)
    if row is None:
        return slot, "missing", None, size(None), size(None)
    status, active, confirmed, kept, safe = row
    return (
        slot,
        f"{status}, {'active' if active else 'idle'}",
        confirmed,
        size(kept),
        size(safe) if safe else "no limit",
    )
