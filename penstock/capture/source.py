"""A PostgreSQL source: whole committed transactions in commit order, each once, as Arrow batches per table.

Laws. A batch ends at a commit or says that it is not complete. `checkpoint()` names the last commit (or keepalive) up
to which everything was delivered, and moves nothing. Only `acknowledge()` lets the slot move, and only up to what it
is given. After `restore(checkpoint)` exactly the transactions after it come.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock import failpoint
from penstock.capture.attach import Attached, attach_finished, attach_new, attach_restored
from penstock.capture.batch import Batch
from penstock.capture.checkpoint import Checkpoint, Mark
from penstock.capture.config import SourceConfig
from penstock.capture.connection import Connection, connect
from penstock.capture.continuity import last_mark
from penstock.capture.discover import SourceTable
from penstock.capture.evolution import Known, SchemaVersion
from penstock.capture.forms import Forms, other_forms
from penstock.capture.health import Health, Metrics, Phase, assess
from penstock.capture.reading import Reading, Taken
from penstock.capture.reconnect import Reconnecting, Returned, explained, may_retry, reattach
from penstock.capture.refine import Refiner, toast_for
from penstock.capture.relations import Relations
from penstock.capture.slot import read_slot
from penstock.capture.snapshot import CopyProgress
from penstock.capture.spill import Spill
from penstock.capture.table_look import TableLook
from penstock.capture.vitals import Vitals
from penstock.capture.watermarks import Watermarks
from penstock.errors import ConfigError, PenstockError, SourceError, SourceUnreachable
from penstock.lsn import Lsn
from penstock.relation.schema import Schema

_SLICE = 0.02  # seconds to wait for a chunk before helping a quiet server to reach a target
_PAUSE = 1.0  # the same while nobody waits for a position


class PostgresSource:
    """One slot of one database. Not for several threads at once."""

    def __init__(
        self,
        config: SourceConfig,
        schemas: Mapping[str, Schema] | None = None,
        storages: Mapping[str, Known] | None = None,
    ) -> None:
        """`schemas` are the shapes that an earlier run captured, `storages` what the catalog said of them then."""
        self._config = config
        self._expected = schemas
        self._storages = storages
        self._restored: Checkpoint | None = None
        self._acknowledged = Lsn(0)
        self._reset()

    def _reset(self) -> None:
        self._connection: Connection | None = None
        self._attached: Attached | None = None
        self._reading: Reading | None = None
        self._spill: Spill | None = None
        self._failure: PenstockError | None = None
        self._away: Reconnecting | None = None
        self._cut: Batch | None = None  # out of the backlog, and not yet given to the caller
        self._shapes: dict[str, SourceTable] = {}
        self._forms: Forms = {}
        self._versions: list[SchemaVersion] = []

    @property
    def tables(self) -> dict[str, Schema]:
        """The captured tables by name, in the shape of what was delivered last."""
        self._opened()
        return {name: table.schema for name, table in self._shapes.items()}

    @property
    def shapes(self) -> dict[str, SourceTable]:
        """The captured tables by name, as `tables`, with what the server's catalog said of them."""
        return dict(self._shapes)

    @property
    def schema_versions(self) -> tuple[SchemaVersion, ...]:
        """The shapes that came after the first, each with the commit from which it holds."""
        return tuple(self._versions)

    @property
    def phase(self) -> Phase:
        if self._failure is not None:
            return "failed"
        if self._attached is None:
            return "closed"
        if self._is_away():
            return "reconnecting"
        if self._attached.snapshot is not None and not self._attached.snapshot.finished:
            return "copying"
        return "finished" if self._attached.only else "streaming"

    @property
    def finished(self) -> bool:
        """Nothing more will come: the source was only to be copied, and was."""
        return self.phase == "finished"

    def copy_progress(self) -> dict[str, CopyProgress]:
        """How far the copy of each table is; nothing once it is over."""
        snapshot = self._opened().snapshot
        return {} if snapshot is None else snapshot.progress()

    def restore(self, state: Checkpoint | None) -> None:
        """Where to go on; before open(). None starts anew."""
        if self._attached is not None:
            raise ConfigError("the source is open already", hint="Call restore() before open().")
        self._restored = state
        self._acknowledged = Lsn(0) if state is None else state.lsn

    def open(self) -> None:
        """Check everything, make what is missing, and start the copy or the stream."""
        if self._attached is not None:
            raise ConfigError("the source is open already", hint="Call close() first.")
        self._reset()
        self._connection = connect(self._config.dsn)
        try:
            if self._restored is None:
                self._attached = attach_new(self._connection, self._config, self._expected)
            elif self._config.snapshot_mode == "initial_only":
                self._attached = attach_finished(self._connection, self._config, self._restored)
            else:
                self._attached = attach_restored(
                    self._connection, self._config, self._restored, self._expected, self._storages
                )
            self._connection.hurried()
            self._vitals = Vitals(self._config, self._attached.tables, self._own_roots())
            self._spill = Spill(self._spill_folder())
            self._reading = self._new_reading(self._spill)
            self._refiner = Refiner(self._config.consolidate, toast_for(self._config, self._asking))
            self._keep_shapes(dict(self._attached.tables))
            self._position = self._attached.start if self._attached.snapshot is None else self._attached.before
            self._mark = self._seen = self._restored.mark if self._restored else Mark(self._attached.start, None)
            if not self._attached.only:
                self._vitals.look(self._connection)
            if self._attached.snapshot is None and not self._attached.only:
                self._reading.start()
        except BaseException as error:
            if self._attached is not None and isinstance(error, PenstockError):
                self._attached.undo.close()
            self.close()
            raise

    def poll(self, max_records: int | None = None, timeout: float | None = None) -> Batch | None:
        """The next batch of at most `max_records` rows, or None if none came within `timeout` seconds."""
        attached = self._opened()
        limit = self._config.max_batch_size if max_records is None else max_records
        if limit < 1:
            raise ConfigError(f"max_records is {limit}", hint="Ask for at least one row.")
        wait = self._config.poll_interval if timeout is None else timeout
        if attached.snapshot is not None and not attached.snapshot.finished:
            return self._poll_copy(limit, wait)
        if attached.only:
            return None
        return self._poll_stream(limit, wait)

    def checkpoint(self) -> Checkpoint:
        """The last commit boundary, or keepalive, up to which everything was delivered."""
        identity = self._opened().identity
        return Checkpoint(
            identity.system_identifier,
            identity.timeline,
            self._config.database,
            self._config.slot_name,
            self._position,
            self._mark,
            forms=self._forms,
        ).published_by(self._vitals.membership)

    def acknowledge(self, state: Checkpoint) -> None:
        """The caller has made everything up to `state` durable: the server may forget it."""
        failpoint.hit("capture.before_acknowledge")
        current = self.checkpoint()
        if (state.system_identifier, state.slot) != (current.system_identifier, current.slot):
            raise ConfigError(
                f"the checkpoint belongs to slot {state.slot} of another source", hint="Acknowledge what it gave you."
            )
        if state.lsn > current.lsn:
            raise ConfigError(
                f"{state.lsn} was not delivered yet, only {current.lsn}", hint="Acknowledge a checkpoint() of this run."
            )
        self._acknowledged = Lsn(max(self._acknowledged, state.lsn))
        try:
            self._reader.acknowledge(self._acknowledged)
        except SourceError as error:
            self._lose(error)  # it is told again when the connection is back

    def current_lsn(self) -> Lsn:
        """The server's position now: every commit already visible ends at or before it.

        Polling until `checkpoint().lsn` reaches it means being caught up. That can need help: the insert position may
        lie past a page header, or commits may not be flushed yet (synchronous_commit = off). If the target stays out
        of reach on a quiet server, poll() writes one small transactional logical message, whose commit lies past it.
        """
        self._opened()
        if self._away is not None and self._is_away():
            raise self._away.reason
        try:
            return self._reader.aim()
        except SourceError as error:
            self._lose(error)
            raise

    def health(self) -> Health:
        """The slot's state on the server, and this reader's."""
        if self._failure is not None:
            return Health("failed", str(self._failure), "failed")
        if self._connection is None:
            return Health("failed", "the source is not open", "closed")
        if self._is_away():
            return Health("warning", str(self._away), "reconnecting")
        try:
            status = read_slot(self._connection, self._config.slot_name)
        except SourceError as error:
            return Health("warning", error.message, self.phase)
        return assess(self.phase, self._config.slot_name, status, self._config.max_wal_lag_bytes)

    def metrics(self) -> Metrics:
        """Counters since open()."""
        if self._attached is None:
            return Metrics(confirmed_lsn=self._acknowledged)
        return replace(
            self._vitals.metrics,
            waiting_rows=self._reader.backlog.waiting,
            current_lsn=self._position,
            confirmed_lsn=self._acknowledged,
            server_lsn=self._reader.known,
            **self._refined(),
            heartbeats_sent=self._reader.statuses,
            server_heartbeats_sent=self._vitals.heartbeat.sent,
        )

    def watermarks(self) -> Watermarks:
        """How far each table's time has come, and the source's."""
        self._opened()
        return self._vitals.watermarks()

    def _refined(self) -> dict[str, Any]:
        saved, toast = self._refiner.consolidation, self._refiner.toast_counts
        return {
            "consolidated_rows_in": saved.rows_in,
            "consolidated_rows_out": saved.rows_out,
            "toast_values_filled": toast.filled,
            "toast_values_missed": toast.missed,
        }

    def close(self) -> None:
        """Leave the server; publication and slot stay. Safe to call twice."""
        if self._away is not None:
            self._away.give_up()
        if self._reading is not None:
            with suppress(PenstockError):  # what the server may forget already is told again next time
                self._reading.leave()
        if self._spill is not None:
            self._spill.close()
        if self._attached is not None and self._attached.snapshot is not None:
            self._attached.snapshot.close()
        if self._connection is not None:
            self._connection.close()
        self._reset()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _own_roots(self) -> dict[str, SourceTable]:
        """A home has noted the leaves of its roots, also over a restart, and compares them itself."""
        tables = self._opened().tables if self._storages is None else {}
        return {name: table for name, table in tables.items() if table.partitioned}

    def _new_reading(self, spill: Spill) -> Reading:
        attached = self._opened()
        reading = Reading(self._config, attached.tables, self._relations(), spill, attached.start, self._asking)
        reading.acknowledged = self._acknowledged
        return reading

    def _read_as_copied(self, tables: dict[str, SourceTable]) -> None:
        """The copy may have ended in other forms than it began with: the stream begins with those."""
        if tables != self._opened().tables:
            assert self._spill is not None
            target = self._reader.target
            self._attached = replace(self._opened(), tables=tables)
            self._reading = self._new_reading(self._spill)
            self._reading.target = target

    def _keep_shapes(self, shapes: dict[str, SourceTable]) -> None:
        self._shapes = shapes
        self._forms = other_forms(shapes.values())

    def _relations(self) -> Relations:
        attached = self._opened()
        remembered = self._restored is None or self._expected is not None
        return Relations(attached.tables, TableLook(self._asking), self._config.on_schema_change, remembered=remembered)

    def _asking(self) -> Connection:
        """The connection for queries, which is another one after a reconnection."""
        assert self._connection is not None
        return self._connection

    def _shapes_delivered(self, batch: Batch) -> None:
        for name, table in batch.shapes.items():
            if self._shapes.get(name) is table:
                continue
            before = next((known for known in self._shapes.values() if known.oid == table.oid), None)
            others = {other: known for other, known in self._shapes.items() if known is not before}
            self._keep_shapes(others | {name: table})
            if before is not None and table.version > before.version and name in batch.tables:
                lsn = Lsn(batch.tables[name]["_lsn"][0].as_py())
                self._versions.append(SchemaVersion(name, table.version, lsn, table.changes))
                self._vitals.reshaped()

    @property
    def _reader(self) -> Reading:
        assert self._reading is not None
        return self._reading

    def _opened(self) -> Attached:
        if self._attached is None:
            raise ConfigError("the source is not open", hint="Call open() first.")
        return self._attached

    def _spill_folder(self) -> Path:
        """Of this slot on this server: it has one reader at a time."""
        base = Path(self._config.spill_directory or tempfile.gettempdir())
        return base / f"penstock_{self._opened().identity.system_identifier}_{self._config.slot_name}"

    def _poll_copy(self, limit: int, timeout: float) -> Batch | None:
        snapshot = self._opened().snapshot
        assert snapshot is not None
        self._raise_failure()
        try:
            batch = snapshot.take(limit, timeout)
        except SourceError as error:
            self._failure = error
            raise
        if batch is None:
            return None
        batch = self._refiner.refine(batch)
        failpoint.hit("capture.copy_part")
        self._shapes_delivered(batch)
        if batch.complete:
            self._read_as_copied(snapshot.tables)
            self._position = batch.cut
            snapshot.close()
        self._vitals.delivered(batch)
        return batch

    def _poll_stream(self, limit: int, timeout: float) -> Batch | None:
        deadline = time.monotonic() + timeout
        self._vitals.polled()
        self._is_reading(0.0)
        while True:
            batch = self._deliver(limit)
            if batch is not None or self._reader.has_reached_target(self._position):
                return batch
            left = deadline - time.monotonic()
            wait = min(max(left, 0.0), _PAUSE if self._reader.target is None else _SLICE)
            read = self._is_reading(wait) and self._read(wait)
            if left <= 0 and not (read and self._reader.backlog.ready):
                return None

    def _deliver(self, limit: int) -> Batch | None:
        """A batch that is ready. Transactions without a row for us only move the position."""
        before = self._position, self._mark
        try:
            while (batch := self._next_batch(limit)) is not None:
                self._shapes_delivered(batch)
                if batch.complete:
                    self._position, self._mark = batch.cut, self._seen
                if batch.rows:
                    self._vitals.delivered(batch)
                    return batch
        except BaseException as error:  # Ctrl-C too: what was cut out and given to nobody must come again
            self._position, self._mark = before
            self._failure = error if isinstance(error, PenstockError) else _interrupted(error)
            raise
        if self._cut is not None:
            return None
        self._raise_failure()
        self._position = Lsn(max(self._position, self._reader.decoder.keepalive))
        self._vitals.reached(self._position)
        return None

    def _next_batch(self, limit: int) -> Batch | None:
        """Cut out of the backlog and refined. One that needs a lost connection for that is kept until it is back."""
        if self._cut is not None:
            self._raise_failure()
            if self._is_away():
                return None
        else:
            self._cut = self._reader.backlog.take(limit)
        if self._cut is None:
            return None
        try:
            batch = self._refiner.refine(self._cut)
        except SourceUnreachable as error:
            self._lose(error)
            return None
        self._seen = last_mark(self._cut.tables) or self._seen
        self._cut = None
        return batch

    def _read(self, timeout: float) -> bool:
        """Take in what the server sent; True if there was something."""
        try:
            taken = self._reader.take(timeout)
            if taken is not None:
                self._took(taken)
            if self._reader.streaming and self._vitals.look_if_due(self._asking(), self._position):
                self._reader.ask()
        except SourceError as error:
            self._lose(error)
            return False
        except BaseException as error:  # Ctrl-C too: what was half taken in must come again
            self._failure = error if isinstance(error, PenstockError) else _interrupted(error)
            raise
        return taken is not None

    def _took(self, taken: Taken) -> None:
        self._failure = taken.decoded.failure
        self._away = None
        if self._failure is not None:
            self._vitals.failed(self._failure)
        self._vitals.read(taken.bytes, taken.decoded.commits)

    def _is_away(self) -> bool:
        return self._away is not None and not self._away.connected

    def _is_reading(self, timeout: float) -> bool:
        """True once there is a reader: a lost connection is tried again, for at most `timeout` seconds of this call."""
        if self._reader.active or self._failure is not None:
            return self._reader.active
        try:
            if self._away is not None:
                back = self._away.try_again(self._reattaching(), timeout)
                if back is None:
                    return False
                self._connection = back.connection.hurried()
                self._attached = replace(self._opened(), identity=back.identity)
                self._vitals.returned()
                self._vitals.look(back.connection)
                self._reader.read_again()
            self._reader.start()
        except PenstockError as error:
            self._lose(error)
        return self._reader.active

    def _reattaching(self) -> Callable[[], Returned]:
        tables = [table.spelled for table in self._shapes.values()]
        return partial(reattach, self._config, tables, self.checkpoint(), self._reader.known)

    def _lose(self, error: PenstockError) -> None:
        """A lost connection is made again by the polls to come; any other error is raised, now and from then on."""
        self._vitals.failed(error)
        self._reader.stop()
        if not self._config.reconnect or not may_retry(error):
            tables = [table.spelled for table in self._shapes.values()]
            self._failure = explained(error, self._config, tables, self.checkpoint())
            raise self._failure
        if self._connection is not None:
            self._connection.close()
        if self._away is None:
            self._away = Reconnecting(error)
        elif self._away.connected:
            self._away.failed(error)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _interrupted(error: BaseException) -> SourceUnreachable:
    return SourceUnreachable(
        f"reading was interrupted ({type(error).__name__})",
        hint="Open the source again from its checkpoint; nothing was skipped.",
    )
