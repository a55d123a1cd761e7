"""Runs the benchmarks by name and prints each figure beside its bar; exit code 1 if a bar is missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from penstock.bench import capture, lake, refresh, views
from penstock.bench.figure import Figure
from penstock.errors import ConfigError

BENCHMARKS: dict[str, Callable[[Console], list[Figure]]] = {
    "capture": capture.run,
    "refresh": refresh.run,
    **{f"views.{name}": part for name, part in views.PARTS.items()},
    **{f"lake.{name}": part for name, part in lake.PARTS.items()},
}


def main(names: Sequence[str] = ()) -> int:
    """Run the named benchmarks, all of them by default; `lake` stands for all whose name begins with `lake.`."""
    console = Console()
    chosen = [one for name in names for one in _meant(name)] or list(BENCHMARKS)
    figures = [figure for name in chosen for figure in BENCHMARKS[name](console)]
    table = Table("what", "measured", "bar", "", title="penstock bench")
    for figure in figures:
        table.add_row(
            figure.what, figure.text, figure.bar, "" if figure.ok is None else "ok" if figure.ok else "MISSED"
        )
    console.print(table)
    return int(any(figure.ok is False for figure in figures))


def _meant(name: str) -> list[str]:
    found = [one for one in BENCHMARKS if one == name or one.startswith(f"{name}.")]
    if not found:
        raise ConfigError(f"no benchmark {name!r}", hint=f"Choose from: {', '.join(BENCHMARKS)}.")
    return found
