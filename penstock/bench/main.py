"""Runs the benchmarks by name and prints each figure beside its bar; exit code 1 if a bar is missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from penstock.bench import capture, lake, refresh, streams, views
from penstock.bench.figure import Figure
from penstock.errors import ConfigError

BENCHMARKS: dict[str, Callable[[Console], list[Figure]]] = {
    **{f"capture.{name}": part for name, part in capture.PARTS.items()},
    "refresh": refresh.run,
    **{f"views.{name}": part for name, part in views.PARTS.items()},
    **{f"lake.{name}": part for name, part in lake.PARTS.items()},
    **streams.PARTS,
}


def main(names: Sequence[str] = ()) -> int:
    """Run the named benchmarks, all by default; `lake` stands for all of `lake.…`, `lake read` for `lake.read`."""
    console = Console()
    chosen = list(dict.fromkeys(_meant(names))) or list(BENCHMARKS)
    figures = [figure for name in chosen for figure in BENCHMARKS[name](console)]
    table = Table("what", "measured", "bar", "", title="penstock bench")
    for figure in figures:
        table.add_row(
            figure.what, figure.text, figure.bar, "" if figure.ok is None else "ok" if figure.ok else "MISSED"
        )
    console.print(table)
    return int(any(figure.ok is False for figure in figures))


def _meant(names: Sequence[str]) -> list[str]:
    """
    >>> _meant(["lake", "read", "idle", "refresh"])
    ['lake.read', 'lake.idle', 'refresh']
    """
    found: list[str] = []
    group, parts = "", 0  # the group named last, and how many of its parts
    for name in names:
        if f"{group}.{name}" in BENCHMARKS:
            found = [*(found if parts else _others(found, group)), f"{group}.{name}"]
            parts += 1
            continue
        some = [one for one in BENCHMARKS if one == name or one.startswith(f"{name}.")]
        if not some:
            raise ConfigError(f"no benchmark {name!r}", hint=f"Choose from: {', '.join(BENCHMARKS)}.")
        found, group, parts = [*found, *some], name, 0
    return found


def _others(found: list[str], group: str) -> list[str]:
    return [one for one in found if not one.startswith(f"{group}.")]
