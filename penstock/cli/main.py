"""`penstock`: assembles the commands and turns errors into two lines and an exit code.

0 done, 1 an error (or a difference found by `verify`), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from importlib.metadata import version
from types import FrameType
from typing import Annotated, NoReturn

import typer

from penstock.cli import (
    backup,
    bench,
    changelog,
    dag,
    demo,
    doctor,
    explain,
    init,
    plan,
    publish,
    query,
    refresh,
    run,
    slots,
    source,
    status,
    verify,
)
from penstock.cli.output import complain
from penstock.errors import PenstockError

app = typer.Typer(
    name="penstock",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keep a lakehouse in step with PostgreSQL, and SQL views over it fresh.",
    epilog="Start with [bold]penstock demo[/]. Errors come with a hint; PENSTOCK_DEBUG=1 adds the stack trace.",
)
_START = (demo, init, source, doctor)
_WORK = (run, status, query, refresh, publish, verify)
_LOOK = (plan, explain, dag, slots, changelog, backup, bench)
for command in (*_START, *_WORK, *_LOOK):
    command.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Keep a lakehouse in step with PostgreSQL, and SQL views over it fresh."""


def main() -> None:
    # Where XDG_RUNTIME_DIR is unset (containers, cron) the embedded server's library says so on every start.
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        complain(error if isinstance(error, PenstockError) else _unexpected(error))
        sys.exit(1)


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM ends penstock as orderly as Ctrl-C: servers it started are stopped on the way out."""
    raise SystemExit(128 + number)


def _unexpected(error: Exception) -> PenstockError:
    return PenstockError(
        f"{type(error).__name__}: {error}",
        hint="This was not foreseen. Run it again with PENSTOCK_DEBUG=1 for the stack trace, and report it.",
    )
