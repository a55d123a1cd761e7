"""`penstock source`: the databases that are captured."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, print_json, table, without_password

group = typer.Typer(no_args_is_help=True, help="Add, list and remove the databases that are captured.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="source")


@group.command("add")
def add(
    name: Annotated[str, typer.Argument(help="What to call it; relations are named NAME.schema.table.")],
    dsn: Annotated[str, typer.Argument(help="postgresql://user@host/database, or host=… dbname=… user=…")],
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", "-t", help='A table, or a pattern such as "public.*"; may be given several times.'),
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Add a PostgreSQL database and copy its tables as they are now.

    Makes a publication and a replication slot there. Adding the same source again ends a copy that was interrupted and
    takes in new tables; with other tables, those are copied and what is not named any more is forgotten.
    """
    with opened(home, catalog, create=True) as session:
        session.add_source(name, dsn, tables=tables or ["public.*"])
        copied = [one for one in session.status().sources if one.name == name]
    out().print(f"Source {name} is captured{f' up to {copied[0].captured}' if copied else ''}.")


@group.command("list")
def list_sources(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show the sources, without their passwords."""
    with opened(home, catalog) as session:
        sources = session.status().sources
    rows = [(one.name, one.state, ", ".join(one.tables), one.slot, without_password(one.dsn)) for one in sources]
    columns = ("name", "state", "tables", "slot", "dsn")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        out().print(table(None, columns, rows))


@group.command("resync")
def resync(
    name: Annotated[str, typer.Argument(help="The source.")],
    table_name: Annotated[str, typer.Argument(metavar="TABLE", help="The table, such as public.orders.")],
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Copy one table again as it is now; the source's other tables go on meanwhile."""
    with opened(home, catalog) as session:
        session.resync(name, table_name)
    out().print(f"Table {table_name} of source {name} is copied.")


@group.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="The source.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also if its server cannot be reached; a slot there keeps WAL until dropped."),
    ] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Stop capturing a database: its slot and publication are dropped there, its tables are forgotten here."""
    with opened(home, catalog) as session:
        if not yes:
            typer.confirm(f"Drop the slot and publication of {name} and forget its tables?", abort=True)
        session.remove_source(name, force=force)
    out().print(f"Source {name} is removed.")
