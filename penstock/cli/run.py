"""`penstock run`."""

from __future__ import annotations

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Capture all sources and refresh stream tables on their schedules, until Ctrl-C."""
    with opened(home, catalog) as session:
        out().print("Running; Ctrl-C stops. [dim]penstock status[/] in another terminal shows what it does.")
        session.run()
