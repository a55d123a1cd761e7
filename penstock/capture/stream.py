"""The replication stream of a slot: chunks in, status out, one thread at a time on the connection.

The flushed position told to the server is the acknowledged one and nothing else. A small thread repeats it while the
caller is busy between polls, so that a long step of the caller does not end the connection. It gives up after
`_ABANDONED` seconds without a read: a server that shuts down waits for every WAL sender whose client is alive.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock.capture.bulk import BulkReader, Chunk
from penstock.capture.connection import connect_replication, translate, translated
from penstock.capture.messages import standby_status
from penstock.errors import PenstockError, SourceError, SourceUnreachable
from penstock.lsn import Lsn

_ABANDONED = 300.0


class WalStream:
    """START_REPLICATION … LOGICAL, from construction to close()."""

    def __init__(
        self, dsn: str, slot: str, publication: str, start: Lsn, *, flushed: Lsn, binary: bool, heartbeat: float
    ) -> None:
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._flushed = flushed
        self._told_at = self._asked_at = 0.0
        self._read_at = time.monotonic()
        self.statuses = 0
        self._connection = connect_replication(dsn)
        try:
            self._start(slot, publication, start, binary)
        except BaseException:
            self._connection.close()
            raise
        self._reader = BulkReader(self._connection)
        self._heartbeat = threading.Thread(
            target=self._keep_alive, args=(heartbeat,), name=f"penstock-{slot}", daemon=True
        )
        self._heartbeat.start()

    def _start(self, slot: str, publication: str, start: Lsn, binary: bool) -> None:
        options = {"proto_version": "1", "publication_names": sql.Identifier(publication).as_string(self._connection)}
        if binary and self._connection.info.server_version >= 140000:
            options["binary"] = "true"
        listed = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in options.items()
        )
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} ({})").format(
            sql.Identifier(slot), sql.SQL(str(start)), listed
        )
        result = self._connection.pgconn.exec_(command.as_bytes(self._connection))
        if result.status != ExecStatus.COPY_BOTH:
            raise translate(error_from_result(result))

    def read(self, timeout: float) -> Chunk | None:
        """The messages that are there or come within `timeout`."""
        with self._lock:
            chunk = self._reader.read(timeout)
            self._read_at = time.monotonic()
            if self._reader.finished:
                raise self._ended()
            return chunk

    def acknowledge(self, lsn: Lsn) -> None:
        """Everything up to `lsn` is durable here: tell the server now."""
        with self._lock:
            self._flushed = Lsn(max(self._flushed, lsn))
            self.tell()

    def tell(self, *, reply: bool = False) -> None:
        """Send the status; with `reply`, the server answers at once with how far it has read."""
        with self._lock, translated():
            pgconn = self._connection.pgconn
            pgconn.put_copy_data(standby_status(self._flushed, reply=reply))
            pgconn.flush()
            self._told_at = time.monotonic()
            self.statuses += 1

    def ask(self, interval: float) -> None:
        """Ask how far the server has read, unless that was asked within `interval`."""
        if time.monotonic() - self._asked_at >= interval:
            self._asked_at = time.monotonic()
            self.tell(reply=True)

    def tell_if_due(self, interval: float) -> None:
        if time.monotonic() - self._told_at >= interval:
            self.tell()

    @property
    def flushed(self) -> Lsn:
        return self._flushed

    def close(self) -> None:
        """Leave; the slot stays where it was acknowledged."""
        self._closing.set()
        with self._lock:
            self._reader.close()
            if not self._connection.closed:
                with suppress(psycopg.Error):
                    self._connection.pgconn.put_copy_end()
                    self._connection.pgconn.flush()
                self._connection.close()
        self._heartbeat.join()

    def _keep_alive(self, interval: float) -> None:
        while not self._closing.wait(interval):
            if time.monotonic() - self._read_at < _ABANDONED:
                with suppress(PenstockError):  # the caller's next read meets the same error
                    self.tell_if_due(interval)

    def _ended(self) -> SourceError:
        """The server ended the copy: its error, or that it is going down."""
        result = self._connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            return translate(error_from_result(result))
        return SourceUnreachable(
            "the server ended the replication stream", hint="It is shutting down; open the source again later."
        )
