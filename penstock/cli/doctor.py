"""`penstock doctor`: what this machine and a database lack, and what to do about it.

A finding that stops penstock from working is a failure (exit code 1); one that only deserves a thought is not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import one_line, out, without_password
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.capture.connection import Connection

_PUBLICATION = "penstock_doctor"  # never made: its name only asks whether one could be


@dataclass(frozen=True)
class Finding:
    """`ok` is None for something to think about that does not stop anything."""

    what: str
    ok: bool | None
    detail: str
    hint: str = ""


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    dsn: Annotated[str | None, typer.Argument(help="A PostgreSQL database to check for capture.")] = None,
    tables: Annotated[
        list[str] | None, typer.Option("--table", "-t", help='Its tables, as in `source add`; "public.*" if not given.')
    ] = None,
) -> None:
    """Check Python, Java and Spark here, and whether a database is ready to be captured."""
    findings = list(machine())
    if dsn is not None:
        findings += database(dsn, tables or ["public.*"])
    console = out()
    for finding in findings:
        mark = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[yellow]![/]"}[finding.ok]
        console.print(f"{mark} [bold]{finding.what}[/]: ", end="")
        console.print(finding.detail, markup=False)
        if finding.hint:
            console.print(f"  [yellow]Hint:[/] {finding.hint}")
    raise typer.Exit(1 if any(finding.ok is False for finding in findings) else 0)


def machine() -> Iterator[Finding]:
    yield Finding(
        "Python",
        sys.version_info >= (3, 11),
        sys.version.split()[0],
        "" if sys.version_info >= (3, 11) else "Use 3.11+.",
    )
    yield java(java_banner())
    yield from packages()
    yield delta_jar(Path.home())


def java_banner() -> str | None:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None or not Path(command).exists():
        return None
    return subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr


def java(banner: str | None) -> Finding:
    """
    >>> java('openjdk version "17.0.15" 2025-04-15').ok, java('java version "1.8.0_292"').ok, java(None).ok
    (True, False, False)
    """
    found = re.search(r'version "(?:1\.)?(\d+)[^"]*"', banner or "")
    ok = found is not None and int(found[1]) >= 17
    hint = "" if ok else "Install a JDK 17 or newer, or point JAVA_HOME at one."
    return Finding("Java", ok, found[0] if found else "not found", hint)


def packages() -> Iterator[Finding]:
    for name in ("pyspark", "delta-spark", "psycopg", "pyarrow"):
        try:
            yield Finding(name, True, version(name))
        except PackageNotFoundError:
            yield Finding(name, False, "not installed", "Run `make setup`, or pip install penstock again.")


def delta_jar(user: Path) -> Finding:
    """The jar is looked for where Spark's resolver keeps it; a cluster may have it elsewhere."""
    jars = sorted(user.glob(".ivy2*/**/*delta-spark_*.jar"))
    if jars:
        return Finding("Delta jar", True, jars[-1].name)
    return Finding("Delta jar", None, "not fetched yet", "Spark fetches it at its first start, from Maven Central.")


def database(dsn: str, tables: Sequence[str]) -> Iterator[Finding]:
    """The checks that `source add` makes, one by one, and none of what it makes."""
    from penstock.capture.checks import check_new, check_role, check_server
    from penstock.capture.connection import connect

    try:
        connection = connect(dsn)
    except PenstockError as error:
        yield Finding(without_password(dsn), False, one_line(error.message), error.hint or "")
        return
    with connection:
        yield _passed("server", lambda: check_server(connection), "a primary that logs what capture needs")
        yield _passed("role", lambda: check_role(connection), f"{connection.info.user} may replicate")
        yield _passed("tables", lambda: check_new(connection, tables, None, _PUBLICATION), "can all be captured")
        yield wal_limit(connection)


def _passed(what: str, check: Callable[[], object], good: str) -> Finding:
    try:
        check()
    except PenstockError as error:
        return Finding(what, False, one_line(error.message), error.hint or "")
    return Finding(what, True, good)


def wal_limit(connection: Connection) -> Finding:
    row = connection.execute("SELECT current_setting('max_slot_wal_keep_size', true)").fetchone()
    limit = row[0] if row else None
    if limit in (None, "-1"):
        return Finding(
            "WAL kept for slots",
            None,
            "without limit",
            "A stopped capture keeps WAL until the disk is full; max_slot_wal_keep_size bounds it (13 and later).",
        )
    return Finding("WAL kept for slots", True, f"at most {limit}")
