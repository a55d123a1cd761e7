"""`penstock bench`: exit code 1 when a figure misses its bar."""

from __future__ import annotations

import os
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("bench")(bench)


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Benchmarks, for example refresh, lake, or lake read; all by default.")
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Below 1: a trial with fewer rows, to see that it runs.")] = None,
    tpch: Annotated[str | None, typer.Option(help="Scales of TPC-H for views.tpch; 0.1,1 by default.")] = None,
    queries: Annotated[str | None, typer.Option(help="For views.tpch, for example q1,q3; all by default.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Time for views.tpch; 30 by default.")] = None,
) -> None:
    """Measure penstock on this machine, as ratios within one run."""
    from penstock.bench.main import main
    from penstock.bench.scale import VARIABLE
    from penstock.bench.views import settings

    asked = {VARIABLE: scale, settings.SCALES: tpch, settings.QUERIES: queries, settings.MINUTES: minutes}
    os.environ |= {name: str(value) for name, value in asked.items() if value is not None}
    raise typer.Exit(main(names or ()))
