"""`penstock plan` and `penstock apply`: stream tables kept as files, compared with what runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.opening import DEFAULT_HOME, CatalogOption, HomeOption, opened
from penstock.cli.output import print_json

if TYPE_CHECKING:
    from penstock.project.plan import Plan, Step

FolderArgument = Annotated[Path, typer.Argument(help="The folder with one .sql file per stream table.")]
DropOption = Annotated[bool, typer.Option("--drop", help="Also drop stream tables of this project whose file is gone.")]
ProjectOption = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="The project's name; that of the folder if not given.")
]


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)
    app.command("apply")(apply)


def plan(
    folder: FolderArgument = Path(),
    drop: DropOption = False,
    project: ProjectOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Show what applying a folder of definitions would change, why, and what it would cost. Changes nothing.

    Each file is a query in PostgreSQL's SQL under a header of comments such as `-- schedule: 5m`; see docs/projects.md.
    """
    with opened(home, catalog) as session:
        found = session.plan(folder, drop=drop, project=project)
    if as_json:
        print_json(as_dict(found))
    else:
        print(found)


def apply(
    folder: FolderArgument = Path(),
    drop: DropOption = False,
    project: ProjectOption = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Then refresh what was changed.")] = False,
    home: HomeOption = DEFAULT_HOME,
    catalog: CatalogOption = None,
) -> None:
    """Make the stream tables match a folder of definitions. The same folder again changes nothing.

    Everything is checked before anything is changed. Interrupted, it keeps what was done; run it again for the rest.
    """
    with opened(home, catalog) as session:
        found = session.plan(folder, drop=drop, project=project)
        session.apply(found, progress=lambda step: print(step, flush=True))
        print(found.summary if not found.nothing else f"Project {found.project}: nothing to do.")
        changed = list(dict.fromkeys(step.name for step in found.work if step.definition is not None))
        if refresh and changed:
            frontier = session.catch_up()
            for name in changed:
                done = session.refresh(name, to=frontier)
                print(f"  {name}: {done.action}, +{done.inserted} -{done.deleted} in {done.seconds:.1f} s", flush=True)


def as_dict(found: Plan) -> dict[str, Any]:
    return {"project": found.project, "nothing": found.nothing, "steps": [_step(step) for step in found.steps]}


def _step(step: Step) -> dict[str, Any]:
    cost = step.cost
    return {
        "kind": step.kind,
        "name": step.name,
        "reason": step.reason,
        "file": None if step.definition is None else step.definition.path,
        "rows": None if cost is None else cost.rows,
        "seconds": None if cost is None else cost.seconds,
    }
