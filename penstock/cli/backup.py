"""`penstock backup` and `penstock restore`: a home and its catalog, together, at one moment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, size


def register(app: typer.Typer) -> None:
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    folder: Annotated[Path, typer.Argument(help="A new folder for the backup.")],
    keep_log: Annotated[
        bool,
        typer.Option("--keep-log", help="Leave a slot on each source, so that a restore can replay: holds back WAL."),
    ] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Write the catalog and every file it names into a folder, while everything goes on."""
    from penstock.refresh.backup import backup as write

    with opened(home, catalog) as session, Progress(transient=True) as bar:
        task = bar.add_task("Copying", total=None)
        done = write(
            session.home, session.catalog, folder, keep_log=keep_log,
            progress=lambda number, total: bar.update(task, completed=number, total=total),
        )  # fmt: skip
    out().print(f"{done.files:,} files, {size(done.bytes)}, and the catalog are in {folder}.", soft_wrap=True)
    for source, lsn in done.captured.items():
        kept = "; its log is kept from there on" if source in done.kept else ""
        out().print(f"{source} was captured up to {lsn}{kept}")


def restore(
    folder: Annotated[Path, typer.Argument(help="The folder of the backup.")],
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Put a backup into a new home, and say how each source can go on."""
    from penstock.errors import SourceError
    from penstock.refresh.backup import restore as put_back
    from penstock.relation.home import Home

    done = put_back(folder, Home.at(home), catalog)
    out().print(f"The home {home} is as it was at {done.taken_at}.")
    with opened(home, catalog) as session:
        for source in done.captured:
            try:
                found = session.recovery(source)
                out().print(str(found), soft_wrap=True)
                if found.way != "none":
                    out().print(f"  [dim]penstock slots recover {source}[/]")
            except SourceError as error:
                out().print(f"[red]![/] {error.message}\n  [dim]{error.hint or ''}[/]", soft_wrap=True)
