"""How things look on a terminal: one table style, sizes and ages that people can read, secrets left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich import filesize
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penstock.errors import PenstockError
from penstock.passwords import without_password

__all__ = ["age", "cell", "complain", "one_line", "out", "print_json", "size", "table", "without_password"]


def out() -> Console:
    return Console(highlight=False)


def complain(error: PenstockError) -> None:
    """One line that says what happened, one that says what to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]Error:[/] {escape(one_line(error.message))}")
    if error.hint:
        console.print(f"[bold yellow]Hint:[/] {escape(one_line(error.hint))}")


def print_json(value: Any, *, line: bool = False) -> None:
    print(json.dumps(value, indent=None if line else 2, default=str, ensure_ascii=False))


def table(
    title: str | None, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()
) -> Table:
    """A table of plain cells; the columns named in `right` hold numbers."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim", pad_edge=False)
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(escape(cell(value)) for value in row))
    return grid


def cell(value: Any) -> str:
    """
    >>> cell(None), cell(True), cell(1.5)
    ('–', 'yes', '1.5')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def size(count: float | None) -> str:
    """
    >>> size(0), size(1500), size(None)
    ('0 bytes', '1.5 kB', '–')
    """
    return "–" if count is None else filesize.decimal(int(count))


def age(seconds: float | None) -> str:
    """
    >>> age(0.24), age(75), age(7300), age(None)
    ('0.2 s', '1 min 15 s', '2 h 1 min', '–')
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def one_line(text: str) -> str:
    """
    >>> one_line("connection failed\\n\\tIs the server running?")
    'connection failed Is the server running?'
    """
    return " ".join(text.split())
