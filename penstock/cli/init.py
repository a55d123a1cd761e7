"""`penstock init`."""

from __future__ import annotations

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, is_home, opened
from penstock.cli.output import out


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def init(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Make a home: a folder for the data and a catalog that says what is in it."""
    existed = is_home(home, catalog)
    with opened(home, catalog, create=True):
        out().print(f"{'The home was already there' if existed else 'Made a home'}: {home.resolve()}")
    out().print("Next: [bold]penstock source add NAME DSN[/] (and [bold]penstock doctor DSN[/] to see if it is ready).")
