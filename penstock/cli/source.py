"""`penstock source`: the databases that are captured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, print_json, table, without_password
from penstock.cli.verify import shown_progress
from penstock.errors import ConfigError

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
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="An option of docs/configuration.md, such as on_schema_change=pause; may be given several times.",
        ),
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Add a PostgreSQL database and copy its tables as they are now.

    Makes a publication and a replication slot there. Adding the same source again ends a copy that was interrupted and
    takes in new tables; with other tables, those are copied and what is not named any more is forgotten.
    """
    given = _options(options or [])
    with opened(home, catalog, create=True) as session:
        with shown_progress("Looking at the source", "rows copied") as progress:
            session.add_source(name, dsn, tables=tables or ["public.*"], progress=progress, **given)
        copied = [one for one in session.status().sources if one.name == name]
    out().print(f"Source {name} is captured{f' up to {copied[0].captured}' if copied else ''}.")


def _options(given: list[str]) -> dict[str, Any]:
    from penstock.capture.config import SourceConfig
    from penstock.capture.config_forms import from_mapping

    for one in given:
        if "=" not in one:
            raise ConfigError(f"option {one!r} has no value", hint="Write it as NAME=VALUE.")
    return from_mapping(dict(one.split("=", 1) for one in given), SourceConfig.types())


@group.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="A YAML file with sources; docs/many-tables.md has an example.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only show what would change.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Bring sources to what a file says of them, and show what changes; the same file again changes nothing.

    New sources are added, new tables copied, tables that are not asked for any more forgotten, options changed. Sources
    that the file does not name are left alone.
    """
    with opened(home, catalog, create=not dry_run) as session:
        plans = session.apply_sources(file, dry_run=True)
        for one in plans:
            out().print(f"{one.spec.name}: {'new' if one.new else 'unchanged' if one.nothing else 'changes'}")
            for step in one.steps:
                out().print(f"  {step}")
        if not dry_run and not all(one.nothing for one in plans):
            session.apply_sources(file)
            out().print("Applied.")


@group.command("resume")
def resume(
    name: Annotated[str, typer.Argument(help="The source.")],
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Go on after a pause in front of a schema change: follow what changed up to now."""
    with opened(home, catalog) as session:
        session.resume(name)
        captured = [one.captured for one in session.status().sources if one.name == name]
    out().print(f"Source {name} is captured up to {captured[0]}.")


@group.command("events")
def events(
    name: Annotated[str, typer.Argument(help="The source.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show what happened to a source's tables: changes followed, tables copied again, new, gone or refused."""
    with opened(home, catalog) as session:
        found = session.events(name)
    rows = [(str(one.at), one.table, one.kind, "!" if one.alert else "", one.detail) for one in found]
    columns = ("at", "table", "kind", "alert", "detail")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        out().print(table(None, columns, rows))


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
    with opened(home, catalog) as session, shown_progress("Looking at the source", "rows copied") as progress:
        session.resync(name, table_name, progress=progress)
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
