"""A backup of a home: its catalog at one moment, and every file that the catalog names at that moment.

Segments and the files of a Delta version never change, so they may be copied while everything goes on; a pin keeps
them from being removed meanwhile. The catalog comes first, from a snapshot that also gives the list of files.
`backup.json` is written last: a folder without it is not a backup.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.capture import recovery
from penstock.catalog import pins, sources
from penstock.catalog.store import Catalog
from penstock.embedded import EmbeddedPostgres, program
from penstock.errors import CatalogError, ConfigError
from penstock.failpoint import hit
from penstock.refresh.positions import readable
from penstock.relation.home import Home
from penstock.relation.segment import description_path, sync
from penstock.relation.storage import writing

MANIFEST = "backup.json"
_CATALOG = "catalog.dump"
_LOG = "_delta_log"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Backup:
    """What a backup holds: how far each source was captured, and whether its slot was kept for a replay."""

    taken_at: str
    catalog: str  # its identity
    captured: dict[str, str]
    kept: dict[str, str]
    files: int
    bytes: int
    pin: int  # that held the files: it is in the catalog's copy


def backup(
    home: Home, catalog: Catalog, target: Path, *, keep_log: bool = False, progress: Progress | None = None
) -> Backup:
    """Write a backup into a new folder. `keep_log` leaves a slot on each source, so that a restore can replay."""
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{target} is not empty", hint="Give a new folder for each backup.")
    target.mkdir(parents=True, exist_ok=True)
    kept = {one.name: str(recovery.keep(one)) for one in sources.every(catalog) if keep_log and one.checkpoint}
    pin = pins.add(catalog, readable(catalog))
    try:
        found, captured = _dump(catalog, home, target / _CATALOG)
        hit("backup.catalog_dumped")
        total = 0
        for number, path in enumerate(found):
            total += _copy(path, target / "home" / home.relative(path))
            if progress:
                progress(number + 1, len(found))
    finally:
        pins.release(catalog, pin)
    done = Backup(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", catalog.identity, captured, kept, len(found), total, pin)
    _write(target / MANIFEST, json.dumps(asdict(done), indent=1))
    return done


def read(folder: Path) -> Backup:
    try:
        return Backup(**json.loads((folder / MANIFEST).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{folder} is not a whole backup: {error}", hint=f"A backup that was finished has a {MANIFEST}."
        ) from error


def restore(folder: Path, home: Home, dsn: str | None = None) -> Backup:
    """Put a backup into an empty home, and its catalog into an empty database: the embedded one unless `dsn` is given.

    Files come before the catalog, so that after an interruption there is no catalog that lacks some.
    """
    found = read(folder)
    if any(home.root.iterdir()):
        raise ConfigError(
            f"{home.root} is not empty", hint="Restore into a new folder, and move it into its place afterwards."
        )
    for path in sorted((folder / "home").glob("**/*")):
        if path.is_file():
            _copy(path, home.root / path.relative_to(folder / "home"))
    hit("restore.files_copied")
    server = EmbeddedPostgres(home.catalog) if dsn is None else None
    try:
        where = server.dsn if server else str(dsn)
        _run("pg_restore", where, "--no-owner", "--no-privileges", "--single-transaction", str(folder / _CATALOG))
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute("DELETE FROM penstock.pins WHERE id = %s", (found.pin,))
    finally:
        if server:
            server.stop()
    return found


def _dump(catalog: Catalog, home: Home, target: Path) -> tuple[list[Path], dict[str, str]]:
    """The catalog at one moment into `target`, and the files and positions it has at that moment."""
    connection = catalog.connection
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        row = connection.execute("SELECT pg_export_snapshot() AS name").fetchone()
        assert row is not None
        with writing(target):
            _run(
                "pg_dump", catalog.dsn, "--schema", "penstock", "--format", "custom", "--snapshot", row["name"],
                "--file", str(target),
            )  # fmt: skip
        segments = [
            home.path(one["path"])
            for one in catalog.all("SELECT path FROM segments UNION ALL SELECT path FROM copy_files")
        ]
        bases = catalog.all(
            "SELECT r.folder, max(b.delta_version) AS version FROM bases b JOIN relations r ON r.id = b.relation_id "
            "GROUP BY r.folder"
        )
        captured = {one.name: str(one.captured) for one in sources.every(catalog)}
    described = [description_path(path) for path in segments if description_path(path).exists()]
    tables = [path for base in bases for path in _delta_files(home.base(base["folder"]), base["version"])]
    return [*segments, *described, *tables], captured


def _delta_files(folder: Path, version: int) -> Iterable[Path]:
    """All files of a Delta table but the log past a version: whoever reads the copy finds it at that version."""
    for path in sorted(folder.glob("**/*")):
        if path.is_file() and (_LOG not in path.parts or _belongs(path, version)):
            yield path


def _belongs(path: Path, version: int) -> bool:
    """
    >>> names = ("00000000000000000004.json", "00000000000000000005.json", "_last_checkpoint")
    >>> [_belongs(Path("t/_delta_log") / name, 4) for name in names]
    [True, False, False]
    """
    number = re.match(r"\d{20}", path.name)
    return number is not None and int(number[0]) <= version


def _copy(path: Path, to: Path) -> int:
    to.parent.mkdir(parents=True, exist_ok=True)
    with writing(to):
        shutil.copy2(path, to)
        sync(to)
    return to.stat().st_size


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.write_text(text)
        sync(path)


def _run(name: str, dsn: str, *arguments: str) -> None:
    """A program of PostgreSQL's on a database; the password goes past the list of processes."""
    where = conninfo_to_dict(dsn)
    password = where.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    command = [str(program(name)), "--dbname", make_conninfo("", **where), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise CatalogError(
            f"{name} failed: {done.stderr.strip()}",
            hint="The role must read the schema penstock; a catalog is restored into a database without one.",
        )
