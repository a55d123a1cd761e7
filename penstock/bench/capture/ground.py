"""Where capture is measured: a source server, and a home with its catalog, both as a user has them (fsync on).

Everything lies in one temporary folder, which goes with its servers when the run ends, whatever ended it. Only
autovacuum and the timed checkpoints of the source are off: they would take a core at a moment of their own choosing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql
from rich.console import Console

from penstock.capture.lifecycle import Captures
from penstock.catalog.store import Catalog
from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres
from penstock.errors import PenstockError
from penstock.lsn import Lsn
from penstock.relation.home import Home

_STEADY = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "16GB"}


@dataclass(frozen=True)
class Database:
    """A fresh database on the source server, and the application's connection to it."""

    dsn: str
    db: psycopg.Connection[Any]
    server: EmbeddedPostgres

    def execute(self, statement: str) -> None:
        self.db.execute(statement.encode())

    def position(self) -> Lsn:
        """Every commit made so far ends at or before it."""
        row = self.db.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return Lsn.parse(row[0])

    def settle_down(self) -> None:
        """Write out what the server still holds in memory, so that it does not do so while something is measured."""
        self.db.execute("CHECKPOINT")


class Ground:
    """The servers of one run. `scale` below 1 is for trying it out."""

    def __init__(self, console: Console, scale: float) -> None:
        self._console = console
        self._scale = scale
        self._started = time.monotonic()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.say("starting the servers" + ("" if self._scale == 1 else f", at scale {self._scale:g}: a trial"))
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        self._server = EmbeddedPostgres(self.folder / "source", {**SOURCE_SETTINGS, **_STEADY})
        self._stack.callback(self._server.stop)
        self.home = Home.at(self.folder / "home")
        self.catalog = Catalog(self.home)
        self._stack.callback(self.catalog.close)
        self.captures = Captures(self.home, self.catalog)
        self._stack.callback(self.captures.close)

    def say(self, text: str) -> None:
        """A line of progress."""
        self._console.print(f"{time.monotonic() - self._started:6.1f} s  {text}", highlight=False, soft_wrap=True)

    def rows(self, full: int, *, least: int = 1000) -> int:
        """`full` rows, or fewer in a trial."""
        return max(least, round(full * self._scale))

    def seconds(self, full: float) -> float:
        return max(0.5, full * self._scale)

    def times(self, full: int) -> int:
        """How often to repeat; a trial does everything once."""
        return full if self._scale == 1 else 1

    @contextmanager
    def database(self, name: str) -> Iterator[Database]:
        """A database that goes with its slots, so that the WAL they hold goes too."""
        with psycopg.connect(self._server.dsn, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            with psycopg.connect(self._server.dsn_of(name), autocommit=True) as db:
                yield Database(self._server.dsn_of(name), db, self._server)
            _drop_slots(admin, name)
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            admin.execute("CHECKPOINT")


def expect(what: str, found: object, wanted: object) -> None:
    """A figure of work that was not done is none."""
    if found != wanted:
        raise PenstockError(f"{what}: {found!r}, expected {wanted!r}", hint="This is a bug; report it with the output.")


def _drop_slots(admin: psycopg.Connection[Any], database: str) -> None:
    """A server process takes a moment to leave its slot."""
    ours = "FROM pg_replication_slots WHERE database = %s AND NOT temporary"
    for _ in range(200):
        admin.execute(f"SELECT pg_drop_replication_slot(slot_name) {ours} AND NOT active", (database,))
        if admin.execute(f"SELECT {ours}", (database,)).fetchone() is None:
            return
        time.sleep(0.05)
