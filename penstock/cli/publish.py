"""`penstock publish`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import age, out

if TYPE_CHECKING:
    from penstock.lake.publish import Published
    from penstock.session import Session


def register(app: typer.Typer) -> None:
    app.command("publish")(publish)


def publish(
    names: Annotated[list[str] | None, typer.Argument(help="Tables and stream tables; all when none is named.")] = None,
    pace: Annotated[
        str | None,
        typer.Option(help="Only say when `run` publishes: adaptive, every-cut, manual, 30s, or default."),
    ] = None,
    optimize: Annotated[bool, typer.Option(help="Put small files together afterwards, in key order.")] = False,
    vacuum: Annotated[bool, typer.Option(help="Delete files that only old versions need afterwards.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Fold changes into the Delta tables that other engines read.

    Without names all of them go to one frontier, and manifest.json in the home says which versions those are.
    """
    from penstock.catalog import relations

    with opened(home, catalog) as session:
        chosen = names or [relation.name for relation in relations.every(session.catalog)]
        if pace is not None:
            for name in chosen:
                session.set_publishing(name, None if pace == "default" else pace)
            return
        for done in map(session.publish, names) if names else session.publish_all():
            _tell(done)
        for name in chosen if optimize or vacuum else []:
            _look_after(session, name, optimize, vacuum)


def _tell(done: Published) -> None:
    out().print(
        f"{done.name} {done.how} [dim]in {age(done.seconds)}[/]: {done.rows:,} rows, "
        f"version {done.version} of {done.path}",
        soft_wrap=True,
    )


def _look_after(session: Session, name: str, optimize: bool, vacuum: bool) -> None:
    if optimize:
        out().print(f"{name}: {session.optimize(name) or 'nothing to put together'}", soft_wrap=True)
    if vacuum:
        out().print(f"{name}: versions of the last {session.vacuum(name)} stay", soft_wrap=True)
