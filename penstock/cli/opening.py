"""The options every command shares, and opening a home with them.

penstock itself is imported when a home is opened, not before: `penstock --help` must not wait for Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.session import Session

HomeOption = Annotated[
    Path,
    typer.Option("--home", envvar="PENSTOCK_HOME", help="The folder with changelog, Delta tables and catalog."),
]
CatalogOption = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        envvar="PENSTOCK_CATALOG",
        metavar="DSN",
        help="A PostgreSQL database for the catalog; without it, penstock runs its own inside the home.",
    ),
]
DEFAULT_HOME = Path("data")


@contextmanager
def opened(home: Path, catalog: str | None, *, create: bool = False) -> Iterator[Session]:
    """A session on an existing home; `create` makes one where there is none."""
    if not create and not is_home(home, catalog):
        raise ConfigError(
            f"there is no penstock home at {home}",
            hint="Make one with `penstock init`, or name yours with --home or PENSTOCK_HOME.",
        )
    import penstock

    with penstock.connect(home=home, catalog=catalog) as session:
        yield session


def is_home(home: Path, catalog: str | None) -> bool:
    return home.is_dir() if catalog else (home / "catalog" / "PG_VERSION").exists()
