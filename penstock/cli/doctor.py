"""`penstock doctor`: what this machine and a database lack, and what to do about it.

A finding that stops penstock from working is a failure (exit code 1); one that only deserves a thought is not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, LiteralString

import typer

from penstock.cli.output import one_line, out, without_password

if TYPE_CHECKING:
    import psycopg


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
) -> None:
    """Check Python, Java and Spark here, and whether a database is ready to be captured."""
    findings = list(machine())
    if dsn is not None:
        findings += database(dsn)
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


def database(dsn: str) -> list[Finding]:
    import psycopg

    try:
        with psycopg.connect(dsn, connect_timeout=5, autocommit=True) as connection:
            return list(readiness(connection))
    except psycopg.OperationalError as error:
        hint = "Check host, port, user and password, and that pg_hba.conf lets this machine in."
        return [Finding(without_password(dsn), False, one_line(str(error)), hint)]
    except psycopg.ProgrammingError as error:
        return [
            Finding("DSN", False, one_line(str(error)), "Write postgresql://user@host/database or host=… dbname=….")
        ]


def readiness(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    yield _server_version(connection)
    yield _wal_level(connection)
    yield _replication(connection)
    yield _publications(connection)
    yield _free("replication slots", "max_replication_slots", connection, "SELECT count(*) FROM pg_replication_slots")
    yield _free(
        "WAL senders",
        "max_wal_senders",
        connection,
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'",
    )
    yield _wal_limit(connection)
    yield _tables(connection)


def _server_version(connection: psycopg.Connection[Any]) -> Finding:
    number = connection.info.server_version
    ok = number >= 120_000
    return Finding("PostgreSQL", ok, str(number // 10_000), "" if ok else "Version 12 or newer is needed.")


def _wal_level(connection: psycopg.Connection[Any]) -> Finding:
    level = _value(connection, "SHOW wal_level")
    hint = "" if level == "logical" else "Run ALTER SYSTEM SET wal_level = 'logical' and restart the server."
    return Finding("wal_level", level == "logical", level, hint)


def _replication(connection: psycopg.Connection[Any]) -> Finding:
    row = connection.execute(
        "SELECT rolname, rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    role, allowed = row or ("?", False)
    hint = "" if allowed else f'As an administrator: ALTER ROLE "{role}" REPLICATION.'
    return Finding("replication", bool(allowed), f"role {role} {'may' if allowed else 'may not'} replicate", hint)


def _publications(connection: psycopg.Connection[Any]) -> Finding:
    allowed = _value(connection, "SELECT has_database_privilege(current_database(), 'CREATE')")
    hint = "" if allowed else "GRANT CREATE ON DATABASE … TO the role, and let it own the tables it captures."
    return Finding("publications", bool(allowed), "may be created" if allowed else "may not be created", hint)


def _free(what: str, setting: str, connection: psycopg.Connection[Any], used_query: LiteralString) -> Finding:
    total = int(_value(connection, "SELECT current_setting(%s)", setting))
    left = total - int(_value(connection, used_query))
    hint = "" if left > 1 else f"Raise {setting} and restart the server: capture holds one and the copy needs another."
    return Finding(what, left > 1, f"{left} of {total} free", hint)


def _wal_limit(connection: psycopg.Connection[Any]) -> Finding:
    if connection.info.server_version < 130_000:
        return Finding("WAL kept for slots", None, "without limit", "Watch the disk: a stopped capture keeps WAL.")
    limit = _value(connection, "SHOW max_slot_wal_keep_size")
    if limit == "-1":
        return Finding(
            "WAL kept for slots", None, "without limit",
            "A stopped capture keeps WAL until the disk is full; max_slot_wal_keep_size bounds it.",
        )  # fmt: skip
    return Finding("WAL kept for slots", True, f"at most {limit}")


_KEYLESS: LiteralString = r"""
SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT LIKE 'pg\_%' AND n.nspname <> 'information_schema'
  AND (c.relreplident = 'n' OR c.relreplident = 'd'
       AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
ORDER BY 1
"""


def _tables(connection: psycopg.Connection[Any]) -> Finding:
    keyless = [name for (name,) in connection.execute(_KEYLESS)]
    if not keyless:
        return Finding("tables", True, "all can be captured: each has a key or a replica identity")
    return Finding(
        "tables", None, f"without a key or replica identity: {', '.join(keyless)}",
        "Such a table is left out. Give it a primary key, or ALTER TABLE … REPLICA IDENTITY FULL.",
    )  # fmt: skip


def _value(connection: psycopg.Connection[Any], query: LiteralString, *arguments: Any) -> Any:
    row = connection.execute(query, arguments or None).fetchone()
    return row[0] if row else None
