"""`penstock bench`."""

from __future__ import annotations

import importlib
import sys

import typer

from penstock.errors import NotYet


def register(app: typer.Typer) -> None:
    app.command("bench", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(bench)


def bench(context: typer.Context) -> None:
    """Measure capture and refresh on this machine; options go through to the benchmark."""
    try:
        benchmarks = importlib.import_module("penstock.bench")
    except ModuleNotFoundError as missing:
        if missing.name != "penstock.bench":
            raise
        raise NotYet("penstock bench") from None
    sys.argv = ["penstock bench", *context.args]
    raise typer.Exit(benchmarks.main() or 0)
