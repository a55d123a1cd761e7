"""`penstock verify`: exit code 1 when anything differs."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import out, table


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    name: Annotated[str | None, typer.Argument(help="A source or one relation; everything when none is named.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Correct what differs (not available yet).")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Compare tables and stream tables with their source, row by row, at one exact position.

    Captures and refreshes up to that position first. The exit code is 1 when anything differs.
    """
    with opened(home, catalog) as session:
        outcome = session.verify(name, repair=repair)
    wrong = {difference.relation: difference.count for difference in outcome.differences}
    rows = [
        (relation, f"{compared:,}", f"{wrong[relation]:,} rows differ" if relation in wrong else "equal")
        for relation, compared in sorted(outcome.rows.items())
    ]
    out().print(table(None, ("relation", "rows", "outcome"), rows, right=("rows",)))
    out().print(str(outcome), markup=False)
    raise typer.Exit(0 if outcome.ok else 1)
