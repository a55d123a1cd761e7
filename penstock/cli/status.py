"""`penstock status`: read from the catalog and the sources, without Spark."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import age, one_line, out, print_json, size, table, without_password

if TYPE_CHECKING:
    from penstock.refresh.status import StreamTableStatus
    from penstock.session import Status


_DELTA_TABLES = 20
_ALERTS = 3  # newest ones of a source; `penstock source events` has all


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show how far every source is captured and how fresh every stream table is."""
    with opened(home, catalog) as session:
        found = session.status()
    if as_json:
        print_json(as_dict(found))
        return
    console = out()
    console.print(sources(found))
    for source in found.sources:
        if source.problem:
            console.print(f"[red]![/] {source.name}: {escape(one_line(source.problem))}")
        for event in [one for one in source.events if one.alert][:_ALERTS]:
            console.print(f"[yellow]![/] {source.name}: {event.kind} at {event.at}: {escape(one_line(event.detail))}")
    console.print()
    console.print(stream_tables(found))
    for one in found.stream_tables:
        for told in remarks(one):
            console.print(f"[yellow]![/] {one.name} {escape(one_line(told))}", soft_wrap=True)
    if found.delta_tables:
        console.print()
        console.print(delta_tables(found))
    for delta in found.delta_tables:
        if delta.error:
            console.print(
                f"[red]![/] {delta.name} cannot be published: {escape(one_line(delta.error))}", soft_wrap=True
            )
    console.print(changelog(found))
    for alert in found.alerts:
        console.print(f"[red]![/] {escape(alert.message)}\n  [dim]{escape(alert.hint)}[/]", soft_wrap=True)
    if not found.sources:
        console.print("\nAdd a database with [bold]penstock source add NAME DSN[/].")


def as_dict(found: Status) -> dict[str, Any]:
    """What `--json` prints: the same facts, without passwords."""
    value = dataclasses.asdict(found)
    for source in value["sources"]:
        source["dsn"] = without_password(source["dsn"])
    return value


def changelog(found: Status) -> str:
    """One line."""
    one = found.changelog
    waiting = f", and {size(one.dropped_bytes)} that wait to be removed" if one.dropped_files else ""
    return f"\nChangelog: {size(one.bytes)} in {one.segments:,} segments, {one.rows:,} rows{waiting}"


def sources(found: Status) -> Table:
    return table(
        "Sources",
        ("source", "state", "slot", "captured", "lag"),
        [(one.name, one.state, one.slot, one.captured, size(one.lag_bytes)) for one in found.sources],
        right=("lag",),
    )


def delta_tables(found: Status) -> Table:
    """How far the Delta tables are behind, the first ones that wait for something."""
    now = datetime.now(UTC)
    shown = sorted(found.delta_tables, key=lambda one: (one.error is None, -one.behind, one.name))[:_DELTA_TABLES]
    lines = [
        (
            one.name,
            one.pace or "",
            one.version,
            "never" if one.published_at is None else age((now - one.published_at).total_seconds()),
            one.how,
            age(one.seconds),
            f"{one.behind:,}",
            age((now - one.behind_since).total_seconds()) if one.behind_since else "",
        )
        for one in shown
    ]
    more = len(found.delta_tables) - len(shown)
    return table(
        f"Delta tables ({more} more, see --json)" if more else "Delta tables",
        ("delta table", "pace", "version", "published", "how", "took", "changes waiting", "since"),
        lines,
        right=("version", "published", "took", "changes waiting", "since"),
    )


def stream_tables(found: Status) -> Table:
    return table(
        "Stream tables",
        ("stream table", "mode", "schedule", "status", "last action", "rows", "pending", "took", "freshness"),
        [
            (
                one.name,
                one.mode,
                one.schedule or "downstream",
                one.status,
                one.action,
                f"{one.rows:,}",
                f"{one.pending_rows:,}",
                age(one.seconds),
                age(one.freshness),
            )
            for one in found.stream_tables
        ],
        right=("rows", "pending", "took", "freshness"),
    )


def remarks(one: StreamTableStatus) -> list[str]:
    """What a person should look at."""
    said = []
    if one.status in ("SUSPENDED", "ERROR"):
        said.append(
            f"is {'suspended' if one.status == 'SUSPENDED' else 'not refreshed'}: {one.status_reason or one.error}"
        )
    elif one.error is not None:
        again = "" if one.retry_at is None else f"; tried again at {one.retry_at:%H:%M:%S}"
        said.append(f"failed {one.consecutive_errors} times in a row{again}: {one.error}")
    if one.reinit_reason is not None:
        said.append(f"is computed anew at its next refresh: {one.reinit_reason}")
    if one.stale and one.status == "ACTIVE":
        said.append(f"shows what was {age(one.freshness)} ago, more than twice its schedule")
    return said
