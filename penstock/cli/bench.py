"""`penstock bench`: exit code 1 when a figure misses its bar."""

from __future__ import annotations

import os
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks, for example refresh, or lake.read; all by default.")
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Below 1: a trial with fewer rows, to see that it runs.")] = None,
) -> None:
    """Measure penstock on this machine, as ratios within one run."""
    from penstock.bench import main
    from penstock.bench.scale import VARIABLE

    if scale is not None:
        os.environ[VARIABLE] = str(scale)
    raise typer.Exit(main(names or ()))
