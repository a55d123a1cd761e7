"""`penstock changelog`: what is kept of the past, for whom, and its upkeep; all without Spark."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import track

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, print_json, size, table

group = typer.Typer(no_args_is_help=True, help="Look after the changelog: what is kept of the past, and for whom.")
COLUMNS = ("relation", "segments", "rows", "size", "oldest", "kept for")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="changelog")


@group.command("show")
def show(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show how large the changelog of each table and stream table is, and who needs the oldest of it."""
    from penstock.refresh import retention

    with opened(home, catalog) as session:
        found = retention.held(session.catalog, session.engine.settings.changelog_retention)
    if as_json:
        print_json([dict(zip(COLUMNS, one.row, strict=True)) for one in found])
        return
    rows = [(one.name, one.segments, one.rows, size(one.bytes), one.oldest, one.who) for one in found]
    out().print(table(None, COLUMNS, rows, right=COLUMNS[1:4]))


@group.command("maintain")
def maintain(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Drop what nobody needs, put small segments together, and remove files that are nobody's.

    `penstock run` does this by itself. Safe at any time, and safe to interrupt.
    """
    with opened(home, catalog) as session:
        done = session.engine.maintain(least=2)
    out().print(
        f"{size(done.released.bytes)} dropped that nobody needs, {done.merged} segments put together into {done.into}, "
        f"{size(done.collected)} removed from disk",
        soft_wrap=True,
    )


@group.command("check")
def check(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Read every segment and compare it with its checksum; exit code 1 if one is gone or damaged."""
    from penstock.catalog import changelog
    from penstock.errors import StorageDamaged
    from penstock.relation import compaction

    damaged = 0
    with opened(home, catalog) as session:
        found = changelog.every_segment(session.catalog)
        for one in track(found, "Reading", transient=True):
            try:
                compaction.check(session.home, one)
            except StorageDamaged as error:
                damaged += 1
                out().print(f"[red]![/] {error.message}", soft_wrap=True)
    out().print(f"{len(found):,} segments read, {damaged} damaged")
    if damaged:
        raise typer.Exit(1)
