"""`penstock publish`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import age, out


def register(app: typer.Typer) -> None:
    app.command("publish")(publish)


def publish(
    names: Annotated[list[str] | None, typer.Argument(help="Tables and stream tables; all when none is named.")] = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Fold changes into the Delta tables that other engines read."""
    with opened(home, catalog) as session:
        for name in names or [one.name for one in session.status().relations]:
            started = time.monotonic()
            session.publish(name)
            out().print(f"{name} published [dim]in {age(time.monotonic() - started)}[/]")
