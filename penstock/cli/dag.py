"""`penstock dag`: what is computed from what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import typer
from rich.tree import Tree

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out


def register(app: typer.Typer) -> None:
    app.command("dag")(dag)


def dag(home: HomeOption = DEFAULT_HOME, catalog: CatalogOption = None) -> None:
    """Show the stream tables and what each one reads, down to the captured tables."""
    from penstock.catalog import relations, stream_tables

    with opened(home, catalog) as session:
        names = {relation.id: relation.name for relation in relations.every(session.catalog)}
        reads = {one.name: [names[input_] for input_ in one.inputs] for one in stream_tables.every(session.catalog)}
    if not reads:
        out().print("No stream tables yet.")
    for tree in trees(reads):
        out().print(tree)


def trees(reads: Mapping[str, Iterable[str]]) -> list[Tree]:
    """A tree per stream table that no other one reads."""
    read_by_others = {name for inputs in reads.values() for name in inputs}
    return [_branch(name, reads) for name in sorted(reads) if name not in read_by_others]


def _branch(name: str, reads: Mapping[str, Iterable[str]]) -> Tree:
    tree = Tree(f"[bold]{name}[/]" if name in reads else f"[dim]{name}[/]")
    for below in sorted(reads.get(name, ())):
        tree.add(_branch(below, reads))
    return tree
