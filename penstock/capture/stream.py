"""The replication connection: a WAL sender that streams the slot's changes.

`acknowledge` tells the server what is durable here. Between that, a sign of life goes out every heartbeat, more often
where the server is less patient, and whenever it asks for one, and always with the last acknowledged position, so that
a busy caller is not mistaken for a dead one. A caller that has not looked for five minutes is: then the server's own
time-out ends the connection. A server that is silent for long is asked for a word, and is taken for lost if it gives
none for as long again.
"""

from __future__ import annotations

import math
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ConnStatus, ExecStatus

from penstock.capture.bulk import Buffer, BulkReader, Chunk
from penstock.capture.connection import Connection, connect_replication, translate, translated
from penstock.capture.messages import standby_status
from penstock.errors import SourceError, SourceUnreachable
from penstock.lsn import Lsn

_ABANDONED = 300.0
_KEEPALIVE = 18  # bytes


@dataclass(frozen=True)
class PluginOptions:
    """What pgoutput is asked for."""

    publication: str
    binary: bool
    streaming: bool = False
    two_phase: bool = False
    messages: bool = False  # those of applications would come too

    def of(self, server_version: int) -> dict[str, str]:
        """As the server's version allows: 2 brought streamed transactions (14), 3 two-phase (15), 4 changed nothing
        of what is asked for here (16)."""
        versions = ((160000, 4), (150000, 3), (140000, 2))
        proto = next((proto for version, proto in versions if server_version >= version), 1)
        options = {"proto_version": str(proto), "publication_names": _quoted(self.publication)}
        if server_version >= 140000:
            if self.messages:
                options["messages"] = "true"
            if self.binary:
                options["binary"] = "true"
            if self.streaming:
                options["streaming"] = "on"
        if self.two_phase and server_version >= 150000:
            options["two_phase"] = "on"
        return options


class WalStream:
    """START_REPLICATION … LOGICAL, from construction to close()."""

    def __init__(
        self,
        dsn: str,
        slot: str,
        start: Lsn,
        options: PluginOptions,
        *,
        flushed: Lsn,
        heartbeat: float,
        tell_every: float,
        silence: float,
    ) -> None:
        self._lock = threading.Lock()
        self._flushed = flushed
        self._told_at = self._asked_at = 0.0
        self._every = min(heartbeat, tell_every)
        self._silence = silence
        self._heard_at = self.looked_at = time.monotonic()
        self._questioned_at: float | None = None  # since it is silent
        self.statuses = 0
        self._connection = connect_replication(dsn).hurried()
        try:
            self._every = min(self._every, _tolerated(self._connection) / 3)
            self._start(slot, start, options)
        except BaseException:
            self._connection.close()
            raise
        self._reader = BulkReader(self._connection)
        self.socket = self._reader.socket
        self._bytes = select.poll()
        self._bytes.register(self.socket, select.POLLIN)

    def _start(self, slot: str, start: Lsn, options: PluginOptions) -> None:
        listed = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value))
            for name, value in options.of(self._connection.info.server_version).items()
        )
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} ({})").format(
            sql.Identifier(slot), sql.SQL(str(start)), listed
        )
        pgconn = self._connection.pgconn
        with translated():
            pgconn.send_query(command.as_bytes(self._connection))
            result = self._connection.wait(execute(pgconn))[-1]
        if result.status != ExecStatus.COPY_BOTH:
            raise translate(error_from_result(result))

    @property
    def gathering(self) -> bool:
        return self._reader.gathering

    @gathering.setter
    def gathering(self, on: bool) -> None:
        self._reader.gathering = on

    @property
    def finished(self) -> bool:
        return False  # a stream ends with an error only

    def fill(self, buffer: Buffer) -> Chunk | None:
        """The messages that are there."""
        heard = self._bytes.poll(0)  # perhaps a part of a long message
        with self._lock:
            chunk = self._reader.fill(buffer)
            if self._reader.finished:
                raise self._ended()
        if heard or chunk is not None:
            self._heard_at, self._questioned_at = time.monotonic(), None
        else:
            self._bear_silence(time.monotonic())
        if chunk is not None and _asks_for_reply(chunk) and self._is_looked_after():
            self.tell()
        return chunk

    def _is_looked_after(self) -> bool:
        return time.monotonic() - self.looked_at < _ABANDONED

    def _bear_silence(self, now: float) -> None:
        if self._questioned_at is None:
            if now - self._heard_at > self._silence:
                self._questioned_at = now
                self.tell(reply=True)
        elif now - self._questioned_at > self._silence:
            raise SourceUnreachable(
                f"the server has sent nothing for {now - self._heard_at:.0f} s, also when it was asked",
                hint="Is the network between cut, or the server stopped? The call may be repeated.",
            )

    def tick(self) -> None:
        """A sign of life if one is due."""
        if time.monotonic() - self._told_at >= self._every and self._is_looked_after():
            self.tell()

    def acknowledge(self, lsn: Lsn) -> None:
        """Everything up to `lsn` is durable here: tell the server now."""
        self._flushed = Lsn(max(self._flushed, lsn))
        self.tell()

    def tell(self, *, reply: bool = False) -> None:
        """Send the status; with `reply`, the server answers at once with how far it has read."""
        with self._lock, translated():
            pgconn = self._connection.pgconn
            try:
                pgconn.put_copy_data(standby_status(self._flushed, reply=reply))
            except psycopg.Error:
                if pgconn.status == ConnStatus.OK:
                    return  # the server ended the copy: who reads next hears its reason
                raise
            pgconn.flush()
            self._told_at = time.monotonic()
            self.statuses += 1

    def ask(self, interval: float) -> None:
        """Ask how far the server has read, unless that was asked within `interval`."""
        if time.monotonic() - self._asked_at >= interval:
            self._asked_at = time.monotonic()
            self.tell(reply=True)

    def close(self) -> None:
        """Leave; the slot stays where it was acknowledged."""
        with self._lock:
            self._reader.close()
            if not self._connection.closed:
                with suppress(psycopg.Error):
                    self._connection.pgconn.put_copy_end()
                    self._connection.pgconn.flush()
                self._connection.close()

    def _ended(self) -> SourceError:
        """The server ended the copy: its error, or that it is going down."""
        result = self._connection.pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            return translate(error_from_result(result))
        return SourceUnreachable(
            "the server ended the replication stream", hint="It is shutting down; open the source again later."
        )


def _tolerated(connection: Connection) -> float:
    """For how many seconds the server bears a reader that says nothing."""
    with translated():
        row = connection.execute("SELECT setting::int8 FROM pg_settings WHERE name = 'wal_sender_timeout'").fetchone()
    return row[0] / 1000 if row is not None and row[0] else math.inf


def _asks_for_reply(chunk: Chunk) -> bool:
    """Whether it ends with a keepalive that wants an answer: kind, position, time, whether it does."""
    ends = chunk.ends[: chunk.messages]
    start, end = int(ends[-2]) if len(ends) > 1 else chunk.start, int(ends[-1])
    return end - start == _KEEPALIVE and chunk.data[start] == ord("k") and bool(chunk.data[end - 1])


def _quoted(name: str) -> str:
    """A name as one item of pgoutput's list of names."""
    return '"{}"'.format(name.replace('"', '""'))
