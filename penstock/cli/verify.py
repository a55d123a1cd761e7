"""`penstock verify`: exit code 1 when anything differs."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, table


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    source: Annotated[str | None, typer.Argument(help="A source; all of them when none is named.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Correct what differs.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Compare tables and stream tables with their source, row by row, at one exact position."""
    with opened(home, catalog) as session:
        outcome = session.verify(source, repair=repair)
    out().print(table(None, ("relation", "rows", "outcome"), []))
    raise typer.Exit(0 if outcome.ok else 1)
