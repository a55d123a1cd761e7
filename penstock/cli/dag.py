"""`penstock dag`: what is computed from what."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import print_json


def register(app: typer.Typer) -> None:
    app.command("dag")(dag)


def dag(
    as_json: Annotated[bool, typer.Option("--json", help="Print what each one reads as JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show the stream tables and what each one reads, down to the captured tables, as text."""
    with opened(home, catalog) as session:
        if as_json:
            print_json([dataclasses.asdict(one) for one in session.monitor.dependencies()])
        else:
            print(session.dag())
