"""Who reads the slot: a stream when live, a pull when behind, into one decoder and one backlog.

A server that cannot send an open transaction is asked for whole ones, until it is past what it has by then. The reader
may change at any moment. What is not whole yet is read again, and what is known is skipped by the position
of its commit, so nothing is missing and nothing comes twice. The slot moves only up to what was acknowledged, and never
past a PREPARE that is neither committed nor rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from penstock.capture import column_memory
from penstock.capture.backlog import Backlog
from penstock.capture.binary_columns import is_binary
from penstock.capture.bulk import Chunk
from penstock.capture.config import SourceConfig
from penstock.capture.connection import Connection, translated
from penstock.capture.continuity import check_unmoved
from penstock.capture.decode import Decoded, WalDecoder
from penstock.capture.discover import SourceTable
from penstock.capture.feed import Feed
from penstock.capture.pull import PullReader, server_is_ahead
from penstock.capture.relations import Relations
from penstock.capture.slot import read_slot
from penstock.capture.slot_copy import OLDEST as PULL_OLDEST
from penstock.capture.spill import Spill
from penstock.capture.stream import PluginOptions, WalStream
from penstock.capture.target import Target
from penstock.errors import NoSlotLeft, NotStreamed
from penstock.lsn import Lsn

_EMIT = "SELECT pg_logical_emit_message(true, 'penstock', '')"
_ASK_EVERY = 0.01  # seconds between questions how far the server has read
_PULL_FROM = 32 << 20  # bytes of WAL behind which it is worth pulling
_READ_AGAIN = 10_000  # rows of an open transaction that may be thrown away for a change of the reader
_LOOK_EVERY = 64 << 20  # bytes streamed between looks at how far the server is ahead
_SILENCE, _LONGEST_SILENCE = 60.0, 3600.0  # seconds
_WHOLE_FOR, _LONGEST_WHOLE = 60.0, 3600.0  # seconds, at least: the transaction that made it necessary may still be open
_ADVANCE_EVERY = 10.0  # seconds: moving a slot that is not being streamed means reading the log once more


@dataclass(frozen=True)
class Taken:
    """One chunk taken in."""

    decoded: Decoded
    bytes: int


class Reading:
    """One slot, from a known position on. `asking` gives the connection for queries."""

    def __init__(
        self,
        config: SourceConfig,
        tables: Mapping[str, SourceTable],
        relations: Relations,
        spill: Spill,
        start: Lsn,
        asking: Callable[[], Connection],
    ) -> None:
        self.backlog = Backlog(start, spill, config.max_transaction_memory_bytes)
        self.decoder = WalDecoder(relations, start)
        self.target: Target | None = None
        self.acknowledged = Lsn(0)
        self._config = config
        self._tables = tables
        self._asking = asking
        self._feed: Feed | None = None
        self._stream: WalStream | None = None
        self._pull: PullReader | None = None
        self._resent_until = Lsn(0)
        self._streaming_past: Lsn | None = None  # the commit behind which one follows that is too long to pull
        self._streamed = 0  # bytes since the last look at how far the server is ahead
        self._advanced_at = time.monotonic()
        self._silence = _SILENCE
        self._whole_until: Lsn | None = None  # no transaction that is still open is asked for before that
        self._whole_pause, self._open_again_at = _WHOLE_FOR, 0.0

    @property
    def active(self) -> bool:
        """Whether there is a reader."""
        return self._feed is not None

    @property
    def streaming(self) -> bool:
        return self._stream is not None

    @property
    def known(self) -> Lsn:
        """Every commit up to here has been read."""
        return Lsn(max(self.backlog.passed, self.decoder.keepalive))

    @property
    def statuses(self) -> int:
        return self._stream.statuses if self._stream else 0

    def start(self) -> None:
        """Stream, or pull when so far behind that it pays."""
        if self._is_behind():
            with suppress(NoSlotLeft):  # a pull needs a slot for itself: without one, stream
                self._start_pull()
                return
        self._start_stream()

    def stop(self) -> None:
        """Leave the server. What was read and is whole stays."""
        if self._feed is not None:
            self._feed.close()
        self._feed = self._stream = self._pull = None
        column_memory.forget()

    def leave(self) -> None:
        """Stop for good, and let the server forget what it may."""
        pulled = self._pull is not None
        self.stop()
        if pulled:
            self._advance_slot()

    def read_again(self) -> None:
        """Another reader will go on: what is not whole yet comes again, what is known is skipped."""
        known = self.known
        self.backlog.restart(known)
        self.decoder.restart(known)

    def take(self, timeout: float) -> Taken | None:
        """Take in the next chunk that comes within `timeout` seconds."""
        assert self._feed is not None
        self._ask_for_target()
        taken, chunk = None, self._next(timeout)
        if chunk is not None:
            taken = Taken(self.decoder.decode(chunk), chunk.used)
            self._feed.give_back(chunk)
            for step in taken.decoded.steps:
                self.backlog.apply(step)
            failure = taken.decoded.failure
            if failure is not None and failure.transient:
                raise failure  # a look at the catalog failed: it comes again with the next connection
            if taken.decoded.steps:
                self._silence = _SILENCE
                if self.target is not None:
                    self.target.moved()
            self._streamed += chunk.used
        if self._feed.finished or self._has_fallen_behind():
            self._change()
        elif self._may_ask_for_open():
            self._whole_until = None
            self._restart_stream()
        if self._stream is not None:
            self._stream.looked_at = time.monotonic()
            if self.decoder.reply_asked():
                self._stream.tell()
        return taken

    def ask(self) -> None:
        """Have the server tell how far it has read."""
        if self._stream is not None:
            self._stream.tell(reply=True)

    def acknowledge(self, lsn: Lsn) -> None:
        """Everything up to `lsn` is durable with the caller."""
        self.acknowledged = Lsn(max(self.acknowledged, lsn))
        if self._stream is not None:
            self._stream.acknowledge(self._movable())
        elif self._pull is not None and time.monotonic() - self._advanced_at > _ADVANCE_EVERY:
            self._advance_slot()

    def aim(self) -> Lsn:
        """The server's position now, as a target for the reader."""
        with translated():
            row = self._asking().execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            if self._pull is not None:  # it reads the flushed log: our own commit flushes everything before it
                self._asking().execute(_EMIT)
        assert row is not None
        lsn = Lsn.parse(row[0])
        self.target = Target(lsn)
        if self._pull is not None:
            self._pull.until = lsn
        return lsn

    def has_reached_target(self, position: Lsn) -> bool:
        """Once: who waits for a position need not wait for what comes after it."""
        if self.target is None or position < self.target.lsn:
            return False
        self.target = None
        return True

    def _is_behind(self) -> bool:
        """Whether pulling would be faster. With two-phase the stream alone tells what is prepared."""
        config = self._config
        if config.reader == "stream" or config.two_phase or self._asking().info.server_version < PULL_OLDEST:
            return False
        if self.backlog.passed == self._streaming_past:
            return False
        return config.reader == "pull" or server_is_ahead(self._asking(), self.known) > _PULL_FROM

    def _has_fallen_behind(self) -> bool:
        """Looked at now and then while much is streamed."""
        if self._stream is None or self._streamed < _LOOK_EVERY or self.backlog.waiting > _READ_AGAIN:
            return False
        self._streamed = 0
        return self._is_behind()

    def _change(self) -> None:
        """Another reader; a stream follows a pull, and goes on if there is no slot for one."""
        if self._pull is None:
            with suppress(NoSlotLeft):
                self._start_pull()
            return
        oversized = self._pull.oversized
        self.stop()
        self.read_again()
        if oversized:
            self._streaming_past = self.backlog.passed
        self._start_stream()

    def _next(self, timeout: float) -> Chunk | None:
        assert self._feed is not None
        try:
            return self._feed.take(timeout)
        except NotStreamed:
            if not self._asks_for_open or self._stream is None:
                raise
        known = self.known
        self._whole_until = Lsn(known + max(0, server_is_ahead(self._asking(), known)))
        self._open_again_at = time.monotonic() + self._whole_pause
        self._whole_pause = min(2 * self._whole_pause, _LONGEST_WHOLE)
        self._restart_stream()
        return None

    @property
    def _asks_for_open(self) -> bool:
        return self._config.streaming != "off" and self._whole_until is None

    def _may_ask_for_open(self) -> bool:
        """Again, once what the server could not send is past. If that is still open it fails again, and more rarely."""
        past = self._whole_until is not None and self.known >= self._whole_until and self._stream is not None
        return past and time.monotonic() >= self._open_again_at and self.backlog.waiting <= _READ_AGAIN

    def _restart_stream(self) -> None:
        self.stop()
        self.read_again()
        self._start_stream()

    def _start_pull(self) -> None:
        """In place of a stream, if there is one."""
        config = self._config
        pull = PullReader(config.dsn, config.slot_name, self.known, self._options())
        if self.active:
            self.stop()
            self.read_again()
        self._pull = pull
        self._feed = Feed(pull, config.slot_name)

    def _start_stream(self) -> None:
        """From the known position; with two-phase from the slot's, so that what is still prepared comes again."""
        config = self._config
        self._resent_until = self.known
        self._stream = WalStream(
            config.dsn,
            config.slot_name,
            Lsn(0) if config.two_phase else self.known,
            self._options(),
            flushed=self._movable(),
            heartbeat=config.heartbeat_interval,
            tell_every=config.slot_advance_interval,
            silence=self._silence,
        )
        # A server may be busy for longer with a transaction that gives nothing: cut off, it would begin it again.
        self._silence = min(2 * self._silence, _LONGEST_SILENCE)
        self._feed = Feed(self._stream, config.slot_name)
        self._streamed = 0
        status = read_slot(self._asking(), config.slot_name)
        check_unmoved(config.slot_name, status.confirmed_lsn if status else None, self.known)

    def _options(self) -> PluginOptions:
        binary = all(
            is_binary(column.arrow, send)
            for table in self._tables.values()
            for column, send in zip(table.schema.columns, table.sends, strict=True)
        )
        config = self._config
        return PluginOptions(config.publication_name, binary, self._asks_for_open, config.two_phase, config.ddl_trigger)

    def _movable(self) -> Lsn:
        """How far the slot may move: never past a PREPARE that is neither committed nor rolled back.

        A new stream sends those again, so before it has come to where the last one was, the slot stays (0 moves none).
        """
        resent = self.decoder.keepalive >= self._resent_until or self.backlog.passed > self._resent_until
        if self._config.two_phase and not resent:
            return Lsn(0)
        return Lsn(min([self.acknowledged, *(one.lsn for one in self.backlog.prepared)]))

    def _advance_slot(self) -> None:
        """Move a slot that nobody streams from."""
        self._advanced_at = time.monotonic()
        status = read_slot(self._asking(), self._config.slot_name)
        if status is None or status.active or (status.confirmed_lsn or self.acknowledged) >= self.acknowledged:
            return
        with translated(), self._asking().unhurried() as connection:
            connection.execute(
                "SELECT pg_replication_slot_advance(%s, %s)", [self._config.slot_name, str(self.acknowledged)]
            )

    def _ask_for_target(self) -> None:
        """While somebody waits for a position: ask how far the server has read, and help if it stays short of it."""
        if self.target is None or self._stream is None:
            return
        self._stream.ask(_ASK_EVERY)
        if self.target.is_stuck():
            with translated():
                self._asking().execute(_EMIT)
