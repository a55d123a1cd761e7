"""`penstock bench`: exit code 1 when a figure misses its bar."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks, for example refresh; all by default.")] = None,
) -> None:
    """Measure penstock on this machine, as ratios within one run."""
    from penstock.bench import main

    raise typer.Exit(main(names or ()))
