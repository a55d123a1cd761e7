"""`penstock publish`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import age, out


def register(app: typer.Typer) -> None:
    app.command("publish")(publish)


def publish(
    names: Annotated[list[str] | None, typer.Argument(help="Tables and stream tables; all when none is named.")] = None,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Fold changes into the Delta tables that other engines read."""
    from penstock.catalog import relations

    with opened(home, catalog) as session:
        for name in names or [relation.name for relation in relations.every(session.catalog)]:
            done = session.publish(name)
            out().print(
                f"{done.name} {done.how} [dim]in {age(done.seconds)}[/]: {done.rows:,} rows, "
                f"version {done.version} of {done.path}",
                soft_wrap=True,
            )
