"""What a running source counts and tells of itself: metrics, watermarks, and the heartbeat it writes to the server.

Cheap while data flows: watermarks are worked out only when somebody asks for them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from penstock.capture.batch import Batch
from penstock.capture.config import SourceConfig
from penstock.capture.connection import Connection, translated
from penstock.capture.discover import SourceTable
from penstock.capture.health import Metrics, batch_times
from penstock.capture.heartbeat import ServerHeartbeat
from penstock.capture.leaves import check_leaves, read_leaves
from penstock.capture.publication import Membership, check_membership, read_membership
from penstock.capture.watermarks import Micros, Watermarks
from penstock.errors import DecodeError, PenstockError, SchemaChanged
from penstock.lsn import Lsn

_LOOK_EVERY = 5.0  # seconds
# The time first: what is committed by then is before the position. A keepalive's time would not do: a server that is
# still decoding says that of now, beside a position of long ago.
_HERE = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8, pg_current_wal_flush_lsn()::text"


class Vitals:
    """Of one source from open() to close()."""

    def __init__(
        self, config: SourceConfig, tables: Mapping[str, SourceTable], roots: Mapping[str, SourceTable] | None = None
    ) -> None:
        """`roots` are partitioned tables whose leaves nobody else looks at."""
        self.metrics = Metrics()
        self.heartbeat = ServerHeartbeat(config.server_heartbeat_interval, config.server_heartbeat_enabled)
        self.membership: Membership | None = None
        self._publication, self._tables = config.publication_name, tables
        self._leaves = {table.oid: (name, frozenset(table.leaves)) for name, table in (roots or {}).items()}
        self._look_at = 0.0
        self._marks = Watermarks.of(tables, config.idle_timeout, time.monotonic())
        self._changes: dict[str, tuple[int, float]] = {}
        self._awaited: tuple[Micros, Lsn] | None = None  # a time of the server, and where its log ended then
        self._passed: Micros = 0  # everything that it had committed by then was delivered

    def polled(self) -> None:
        self.metrics = replace(self.metrics, last_poll_time=time.time_ns() // 1000)

    def delivered(self, batch: Batch) -> None:
        self.metrics = self.metrics.with_delivered(batch)
        now = time.monotonic()
        times = batch_times(batch)
        self._changes.update({name: (at, now) for name, at in times.items()})
        if batch.complete and not batch.snapshot:
            self._passed = max([self._passed, *times.values()])

    def read(self, size: int, transactions: int) -> None:
        self.metrics = self.metrics.with_chunk(size, transactions)

    def reached(self, position: Lsn) -> None:
        """Everything up to it was delivered."""
        if self._awaited is not None and position >= self._awaited[1]:
            self._passed = max(self._passed, self._awaited[0])
            self._awaited = None

    def failed(self, error: PenstockError) -> None:
        self.metrics = replace(
            self.metrics,
            errors=self.metrics.errors + 1,
            decode_errors=self.metrics.decode_errors + isinstance(error, DecodeError),
            schema_changes=self.metrics.schema_changes + isinstance(error, SchemaChanged),
        )

    def reshaped(self) -> None:
        self.metrics = replace(self.metrics, schema_changes=self.metrics.schema_changes + 1)

    def returned(self) -> None:
        self.metrics = replace(self.metrics, reconnects=self.metrics.reconnects + 1)

    def look_if_due(self, connection: Connection, position: Lsn) -> bool:
        """Now and then: is the publication still the one it was, and does the slot need a message to move? True if so,
        and it was written: the server may be asked how far it is."""
        if time.monotonic() >= self._look_at:
            self.look(connection)
        return self.heartbeat.is_due() and self.heartbeat.beat(connection, position)

    def look(self, connection: Connection) -> None:
        """What no server says: that the publication does not give changes any more, and what happens to a leaf of a
        root as a whole. How far the server is now is noted with its time: once that is reached, everything up to that
        time was delivered."""
        self._look_at = time.monotonic() + _LOOK_EVERY
        now = read_membership(connection, self._publication, [table.oid for table in self._tables.values()])
        found = check_membership(self._publication, self.membership or Membership(), now, self._tables)
        self.membership = self.membership or found
        for oid, leaves in read_leaves(connection, list(self._leaves)).items():
            name, known = self._leaves[oid]
            check_leaves(name, known, leaves)
            self._leaves[oid] = name, frozenset(leaves)
        if self._awaited is None:
            with translated():
                row = connection.execute(_HERE).fetchone()
            assert row is not None
            self._awaited = row[0], Lsn.parse(row[1])

    def watermarks(self) -> Watermarks:
        self._marks = self._marks.delivered(self._changes)
        self._changes = {}
        if self._passed:
            self._marks = self._marks.caught_up(self._passed, time.monotonic())
        return self._marks
