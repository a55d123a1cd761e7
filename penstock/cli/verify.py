"""`penstock verify`: exit code 1 when anything differs and was not put right."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import age, out, table

if TYPE_CHECKING:
    from penstock.refresh.verify import Verification
    from penstock.session import Session


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    name: Annotated[str | None, typer.Argument(help="A source or one relation; everything when none is named.")] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Put right what differs: rows, else the table; views are computed anew.")
    ] = False,
    history: Annotated[bool, typer.Option("--history", help="Show what earlier verifications found.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Compare tables and stream tables with their source at one exact position.

    Captures and refreshes up to that position first, or waits for a `penstock run` that does. Counts and hashes of
    rows are compared first, in ranges; rows are fetched only where these differ. The exit code is 1 when anything
    differs.
    """
    with opened(home, catalog) as session:
        if history:
            out().print(past(session))
            return
        with shown_progress() as progress:
            outcome = session.verify(name, repair=repair, progress=progress)
    out().print(found(outcome))
    out().print(str(outcome), markup=False)
    raise typer.Exit(0 if outcome.ok else 1)


@contextmanager
def shown_progress(
    first: str = "Waiting for a snapshot of the source", what: str = "rows read"
) -> Iterator[Callable[[str, int], None]]:
    """Rows so far, on a line that goes when it is done; nothing where the output is no terminal."""
    done: Counter[str] = Counter()
    lock = threading.Lock()
    with out().status(first) as status:

        def progress(relation: str, rows: int) -> None:
            with lock:
                done[relation] += rows
                status.update(f"{relation}: {done[relation]:,} {what}")

        yield progress


def found(outcome: Verification) -> Table:
    wrong = {one.relation: one for one in outcome.differences}

    def told(relation: str) -> str:
        if relation not in wrong:
            return "equal"
        count = f"{'' if wrong[relation].complete else 'at least '}{wrong[relation].count:,} rows differ"
        return f"{count}; {outcome.repaired[relation]}" if relation in outcome.repaired else count

    rows = [(relation, f"{compared:,}", told(relation)) for relation, compared in sorted(outcome.rows.items())]
    rows += [(relation, "", f"not compared: {why}") for relation, why in sorted(outcome.skipped.items())]
    return table(None, ("relation", "rows", "outcome"), rows, right=("rows",))


def past(session: Session) -> Table:
    """A line per verification, newest first."""
    lines = []
    for one in session.verify_history():
        differing = ", ".join(f"{name}: {count:,}" for name, count in one.differences.items())
        repaired = " (repaired)" if one.differences and one.ok else ""
        lines.append(
            (
                f"{one.finished_at:%Y-%m-%d %H:%M:%S}",
                "schedule" if one.scheduled else "asked",
                one.subject or "everything",
                f"{sum(one.rows.values()):,}",
                age(one.seconds),
                f"failed: {one.error}" if one.error else f"{differing}{repaired}" if differing else "equal",
            )
        )
    return table(
        "Verifications", ("when (UTC)", "by", "what", "rows", "took", "rows that differ"), lines, right=("rows", "took")
    )
