"""`penstock run`."""

from __future__ import annotations

from contextlib import closing, nullcontext
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out
from penstock.telemetry import log_to_stderr


class LogFormat(StrEnum):
    text = "text"
    json = "json"


def register(app: typer.Typer) -> None:
    app.command("run")(run)


def run(
    metrics_port: Annotated[
        int | None,
        typer.Option("--metrics-port", min=0, max=65535, help="Answer Prometheus at http://HOST:PORT/metrics."),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option("--metrics-host", help="The address for it; 0.0.0.0 is every one.")
    ] = "127.0.0.1",
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Log lines as text, or as JSON with the round and more.")
    ] = LogFormat.text,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Capture all sources and refresh stream tables on their schedules, until Ctrl-C."""
    log_to_stderr(log_format.value)
    with opened(home, catalog) as session:
        serving = None if metrics_port is None else session.serve_metrics(metrics_port, metrics_host)
        with closing(serving) if serving else nullcontext():
            if log_format is LogFormat.text:
                out().print("Running; Ctrl-C stops. [dim]penstock status[/] in another terminal shows what it does.")
                if serving:
                    out().print(f"Metrics: http://{metrics_host}:{serving.port}/metrics")
            session.run()
    raise typer.Exit(130)  # it returns only when it is interrupted
