"""`penstock demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long the shop stays open.")] = 60,
    keep: Annotated[bool, typer.Option("--keep", help="Run until Ctrl-C, then verify.")] = False,
    home: Annotated[Path, typer.Option("--home", help="Where to keep it; an earlier demo there is replaced.")] = Path(
        "demo-data"
    ),
    rate: Annotated[float, typer.Option(min=0.1, help="Transactions a second in the shop's database.")] = 40,
) -> None:
    """Watch a shop's database being captured, mirrored and turned into fresh views.

    Starts a PostgreSQL server with a live workload, keeps three views fresh, and at the end compares every table and
    view with the shop's database at one exact position. Fails if anything differs.
    """
    from penstock.demo.run import Options, run

    raise typer.Exit(0 if run(Options(home=home, seconds=None if keep else seconds, rate=rate)) else 1)
