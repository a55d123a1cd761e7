"""`penstock refresh`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import age, out, table


def register(app: typer.Typer) -> None:
    app.command("refresh")(refresh)


def refresh(
    name: Annotated[
        str | None, typer.Argument(help="A stream table, with those it reads; all if none is named.")
    ] = None,
    capture: Annotated[bool, typer.Option(help="First capture what is committed in the sources now.")] = True,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Bring stream tables up to date, all at one frontier, and show what each one took."""
    with opened(home, catalog) as session:
        frontier = session.catch_up() if capture else None
        done = [session.refresh(name, to=frontier)] if name else list(session.refresh_all(to=frontier).values())
    columns = ("stream table", "action", "reason", "inserted", "deleted", "took")
    rows = [(one.name, one.action, one.reason, one.inserted, one.deleted, age(one.seconds)) for one in done]
    out().print(table(None, columns, rows, right=columns[3:]))
