"""`penstock explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened


def register(app: typer.Typer) -> None:
    app.command("explain")(explain)


def explain(
    name: Annotated[str, typer.Argument(help="The stream table.")],
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show how a stream table is kept fresh: its mode, its rules, and what each one reads."""
    with opened(home, catalog) as session:
        print(session.explain(name))
