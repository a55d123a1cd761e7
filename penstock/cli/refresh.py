"""`penstock refresh`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import age, out, table


def register(app: typer.Typer) -> None:
    app.command("refresh")(refresh)


def refresh(
    names: Annotated[list[str] | None, typer.Argument(help="Stream tables; all of them when none is named.")] = None,
    capture: Annotated[bool, typer.Option(help="First capture what is committed in the sources now.")] = True,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Bring stream tables up to date, all at one frontier, and show what each one took."""
    with opened(home, catalog) as session:
        wanted = names or [one.name for one in session.status().stream_tables]
        frontier = session.catch_up() if capture else None
        results = [(name, session.refresh(name, to=frontier)) for name in wanted]
    columns = ("stream table", "action", "reason", "inserted", "deleted", "took")
    rows = [(name, r.action, r.reason, r.inserted, r.deleted, age(r.seconds)) for name, r in results]
    out().print(table(None, columns, rows, right=columns[3:]))
