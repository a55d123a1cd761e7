"""`penstock run`."""

from __future__ import annotations

import logging

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Capture all sources and refresh stream tables on their schedules, until Ctrl-C."""
    _log_to_stderr()
    with opened(home, catalog) as session:
        out().print("Running; Ctrl-C stops. [dim]penstock status[/] in another terminal shows what it does.")
        session.run()
    raise typer.Exit(130)  # it returns only when it is interrupted


def _log_to_stderr() -> None:
    """penstock's own lines only: Spark's and the embedded server's libraries log as well."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    logger = logging.getLogger("penstock")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
