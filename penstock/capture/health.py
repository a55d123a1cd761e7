"""How a source is doing, for people and monitors: values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from penstock.capture.batch import Batch
from penstock.capture.rows import op_letters
from penstock.capture.slot import SlotStatus
from penstock.lsn import Lsn

_NOWHERE = Lsn(0)
_UPDATE = ord("U")
Phase = Literal["closed", "copying", "streaming", "finished", "reconnecting", "failed"]


@dataclass(frozen=True)
class Health:
    """`status` is ok, warning (act soon) or failed (the source does not move)."""

    status: Literal["ok", "warning", "failed"]
    message: str
    phase: Phase
    lag_bytes: int | None = None  # behind the server's position
    retained_bytes: int | None = None  # WAL the server keeps for the slot
    wal_status: str | None = None
    safe_wal_bytes: int | None = None  # WAL that may still be written before the slot is lost; None is no limit


@dataclass(frozen=True)
class Metrics:
    """Counters since open(), and where the reader stands. Times are microseconds since 1970, 0 for never."""

    wal_bytes_consumed: int = 0
    rows_total: int = 0  # rows delivered: an update has two
    events_total: int = 0  # inserts + updates + deletes + truncates
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    truncates: int = 0
    transactions: int = 0
    snapshot_rows: int = 0
    batches: int = 0
    heartbeats_sent: int = 0  # standby status messages
    server_heartbeats_sent: int = 0  # logical messages written so that the slot moves
    schema_changes: int = 0
    consolidated_rows_in: int = 0  # rows before consolidation, and what it left of them
    consolidated_rows_out: int = 0
    toast_values_filled: int = 0  # values the WAL did not carry: found after all, or left marked as absent
    toast_values_missed: int = 0
    decode_errors: int = 0
    errors: int = 0
    reconnects: int = 0
    waiting_rows: int = 0
    last_event_time: int = 0  # commit time of the last delivered change
    last_poll_time: int = 0
    current_lsn: Lsn = _NOWHERE
    confirmed_lsn: Lsn = _NOWHERE
    server_lsn: Lsn = _NOWHERE  # the server's position when it last told

    @property
    def replication_lag_bytes(self) -> int:
        """What the server had written, when it last told, beyond what is acknowledged."""
        return max(0, self.server_lsn - self.confirmed_lsn)

    @property
    def consolidation_ratio(self) -> float:
        """Rows that came per row that was delivered."""
        return self.consolidated_rows_in / self.consolidated_rows_out if self.consolidated_rows_out else 1.0

    def as_mapping(self) -> dict[str, int]:
        """All of them as plain numbers, for whatever monitor."""
        values = {name: int(value) for name, value in asdict(self).items()}
        return {**values, "replication_lag_bytes": self.replication_lag_bytes}

    def with_batch(self, batch: Batch) -> Metrics:
        copied = batch.rows if batch.snapshot else 0
        return replace(
            self,
            rows_total=self.rows_total + batch.rows,
            snapshot_rows=self.snapshot_rows + copied,
            batches=self.batches + 1,
        )

    def with_delivered(self, batch: Batch) -> Metrics:
        """The batch's rows, and its events by kind."""
        counted = self.with_batch(batch)
        if batch.snapshot:
            return counted
        counts: Counter[str] = Counter()
        for table in batch.tables.values():
            letters = op_letters(table["_op"])
            found = np.bincount(letters, minlength=128)
            counts.update({chr(letter): int(found[letter]) for letter in np.flatnonzero(found)})
            if found[_UPDATE]:
                counts["U"] -= int(((letters == _UPDATE) & (table["_weight"].to_numpy() < 0)).sum())
        return counted.with_events(counts, max(batch_times(batch).values(), default=0))

    def with_events(self, counts: Mapping[str, int], last: int) -> Metrics:
        """`counts` are delivered rows by `_op`; an update has a row before and one after, counted once."""
        inserts, updates, deletes, truncates = (counts.get(op, 0) for op in "IUDT")
        return replace(
            self,
            events_total=self.events_total + inserts + updates + deletes + truncates,
            inserts=self.inserts + inserts,
            updates=self.updates + updates,
            deletes=self.deletes + deletes,
            truncates=self.truncates + truncates,
            last_event_time=max(self.last_event_time, last),
        )

    def with_chunk(self, size: int, transactions: int) -> Metrics:
        return replace(
            self,
            wal_bytes_consumed=self.wal_bytes_consumed + size,
            transactions=self.transactions + transactions,
        )


def batch_times(batch: Batch) -> dict[str, int]:
    """The commit time of each table's last row, in microseconds since 1970; rows come in the order of commits."""
    return {name: table["_ts"][-1].value for name, table in batch.tables.items() if table.num_rows}


def assess(phase: Phase, slot: str, status: SlotStatus | None, limit: int) -> Health:
    """What the slot's status means for somebody on call."""
    if phase == "finished":
        return Health("ok", "the tables were copied, and nothing more was asked for", phase)
    if status is None:
        return Health("failed", f"replication slot {slot} does not exist", phase)
    known = (status.lag_bytes, status.retained_bytes, status.wal_status, status.safe_wal_bytes)
    if status.lost:
        return Health("failed", f"replication slot {slot} is lost: {status.lost}", phase, *known)
    if status.wal_status == "unreserved":
        return Health("warning", f"the server is about to drop WAL that slot {slot} needs", phase, *known)
    if status.lag_bytes is not None and status.lag_bytes > limit:
        return Health("warning", f"slot {slot} is {status.lag_bytes:,} bytes behind", phase, *known)
    if status.retained_bytes is not None and status.retained_bytes > limit:
        return Health("warning", f"slot {slot} makes the server keep {status.retained_bytes:,} bytes", phase, *known)
    if status.wal_status == "extended" and status.safe_wal_bytes is not None:
        left = f"{status.safe_wal_bytes:,} bytes may be written before it is lost"
        return Health("warning", f"slot {slot} holds back more WAL than the server plans for: {left}", phase, *known)
    return Health("ok", f"slot {slot} keeps up", phase, *known)
