"""How a source is doing, for people and monitors: values only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from penstock.capture.batch import Batch
from penstock.capture.slot import SlotStatus
from penstock.lsn import Lsn

_NOWHERE = Lsn(0)
Phase = Literal["closed", "copying", "streaming", "failed"]


@dataclass(frozen=True)
class Health:
    """`status` is ok, warning (act soon) or failed (the source does not move)."""

    status: Literal["ok", "warning", "failed"]
    message: str
    phase: Phase
    lag_bytes: int | None = None
    retained_bytes: int | None = None
    wal_status: str | None = None


@dataclass(frozen=True)
class Metrics:
    """Counters since open()."""

    wal_bytes_consumed: int = 0
    rows_total: int = 0
    transactions: int = 0
    snapshot_rows: int = 0
    batches: int = 0
    heartbeats_sent: int = 0
    waiting_rows: int = 0
    current_lsn: Lsn = _NOWHERE
    confirmed_lsn: Lsn = _NOWHERE

    def with_batch(self, batch: Batch) -> Metrics:
        copied = batch.rows if batch.snapshot else 0
        return replace(
            self,
            rows_total=self.rows_total + batch.rows,
            snapshot_rows=self.snapshot_rows + copied,
            batches=self.batches + 1,
        )

    def with_chunk(self, size: int, transactions: int) -> Metrics:
        return replace(
            self,
            wal_bytes_consumed=self.wal_bytes_consumed + size,
            transactions=self.transactions + transactions,
        )


def assess(phase: Phase, slot: str, status: SlotStatus | None, limit: int) -> Health:
    """What the slot's status means for somebody on call."""
    if status is None:
        return Health("failed", f"replication slot {slot} does not exist", phase)
    known = (status.lag_bytes, status.retained_bytes, status.wal_status)
    if status.wal_status == "lost":
        return Health("failed", f"the server dropped WAL that slot {slot} needed", phase, *known)
    if status.wal_status == "unreserved":
        return Health("warning", f"the server is about to drop WAL that slot {slot} needs", phase, *known)
    if status.lag_bytes is not None and status.lag_bytes > limit:
        return Health("warning", f"slot {slot} is {status.lag_bytes:,} bytes behind", phase, *known)
    return Health("ok", f"slot {slot} keeps up", phase, *known)
