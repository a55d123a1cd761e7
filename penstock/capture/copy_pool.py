"""Several connections under one exported snapshot, each with a thread that copies one range after the other.

All of them see exactly the commits before the snapshot's LSN, and hold ACCESS SHARE locks on all tables to the end, so
that no table is rewritten under an older snapshot (a rewritten table would look empty to it). The first error stops
all threads and is raised to whoever looks after them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import psycopg
from psycopg import sql

from penstock.capture import column_memory
from penstock.capture.connection import Connection, connect, translated
from penstock.capture.discover import SourceTable
from penstock.capture.table_copy import Stopped, from_table
from penstock.errors import NoSlotLeft

Job = Callable[[Connection, Callable[[], bool]], None]  # with a connection, and a way to know that it shall stop


def open_snapshot(
    dsn: str, snapshot: str, tables: Mapping[str, SourceTable], workers: int
) -> list[Connection]:  # while the slot's connection still exports it
    """Up to `workers` connections under the snapshot, the tables locked; fewer if the server has no room for more."""
    opened: list[Connection] = []
    try:
        while len(opened) < workers:
            try:
                opened.append(connect(dsn))
            except NoSlotLeft:
                if not opened:
                    raise
                break
            with translated():
                opened[-1].execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                opened[-1].execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
                opened[-1].execute(_lock_command(tables))
    except BaseException:
        for connection in opened:
            connection.close()
        raise
    return opened


class CopyPool:
    """Jobs run in the threads, each on a connection of its own; `leave` is what a thread does last."""

    def __init__(self, connections: list[Connection], leave: Callable[[], None] | None = None) -> None:
        self._connections = connections
        self._leave = leave
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._stop = False
        self._busy = 0
        self._failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, args=[one], name="penstock-copy", daemon=True) for one in connections
        ]

    def start(self, jobs: Iterable[Job]) -> None:
        self.add(jobs)
        for thread in self._threads:
            thread.start()

    def add(self, jobs: Iterable[Job]) -> None:
        with self._changed:
            self._jobs.extend(jobs)
            self._changed.notify_all()

    def idle(self) -> bool:
        """Nothing is left to do, or under way; raises what a thread raised."""
        self.check()
        with self._changed:
            return not self._jobs and not self._busy

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def stopped(self) -> bool:
        return self._stop

    def close(self) -> None:
        """Stop the threads and give up the snapshot. Safe to call twice."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        for connection in self._connections:
            with suppress(psycopg.Error):
                connection.close()
        column_memory.forget()

    def _work(self, connection: Connection) -> None:
        try:
            self._run_jobs(connection)
        finally:
            if self._leave is not None:
                self._leave()

    def _run_jobs(self, connection: Connection) -> None:
        while (job := self._next()) is not None:
            try:
                job(connection, self.stopped)
            except Stopped:
                return
            except BaseException as error:
                with self._changed:
                    self._failure = self._failure or error
                    self._stop = True
            finally:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()

    def _next(self) -> Job | None:
        with self._changed:
            while not self._jobs and not self._stop:
                self._changed.wait()
            if self._stop:
                return None
            self._busy += 1
            return self._jobs.popleft()


def _lock_command(tables: Mapping[str, SourceTable]) -> sql.Composed:
    listed = sql.SQL(", ").join(from_table(table) for table in tables.values())
    return sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(listed)
