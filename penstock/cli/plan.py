"""`penstock plan` and `penstock apply`: stream tables kept as files, compared with what runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import NotYet

_HINT = "Until then, call create_stream_table from Python; it changes nothing when the definition is the same."
FolderArgument = Annotated[Path, typer.Argument(help="The folder with one .sql file per stream table.")]


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)
    app.command("apply")(apply)


def plan(folder: FolderArgument = Path()) -> None:
    """Show what applying a folder of definitions would change (not available yet)."""
    raise NotYet("penstock plan", hint=_HINT)


def apply(folder: FolderArgument = Path()) -> None:
    """Make the stream tables match a folder of definitions (not available yet)."""
    raise NotYet("penstock apply", hint=_HINT)
