"""How far each table's time has come: every change of it committed before its watermark was delivered.

A table's watermark is the commit time of its last delivered change. A table without a change for `idle_timeout` is
idle: it follows the last commit of any table, and the server's clock once everything up to that moment was read, so
that it holds back nobody who joins it with busy tables. The watermark of the source is the least of its tables'. None
ever goes back, whatever the clocks do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

Micros = int  # since 1970, UTC


@dataclass(frozen=True)
class Watermark:
    """`time` is None until the first change, or until the table is idle."""

    time: Micros | None = None
    idle: bool = False
    changed_at: float = 0.0  # the reader's clock, for idleness


@dataclass(frozen=True)
class Watermarks:
    """The watermarks of a source's tables, as a value: every step gives a new one."""

    idle_timeout: float
    tables: Mapping[str, Watermark] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: Iterable[str], idle_timeout: float, now: float) -> Watermarks:
        return cls(idle_timeout, {name: Watermark(changed_at=now) for name in tables})

    def delivered(self, changes: Mapping[str, tuple[Micros, float]]) -> Watermarks:
        """The last commit time of each table that had changes, and when they came by the reader's clock."""
        moved = {
            name: Watermark(_later(self.tables.get(name, Watermark()).time, time), False, now)
            for name, (time, now) in changes.items()
        }
        return replace(self, tables={**self.tables, **moved})

    def caught_up(self, server_time: Micros, now: float) -> Watermarks:
        """Everything that the server had at its `server_time` was delivered: idle tables are as far as that."""
        return replace(
            self,
            tables={
                name: Watermark(_later(mark.time, server_time), True, mark.changed_at)
                if now - mark.changed_at >= self.idle_timeout
                else mark
                for name, mark in self.tables.items()
            },
        )

    @property
    def source(self) -> Micros | None:
        """The least of all tables: None while a table that is not idle has none."""
        times = [mark.time for mark in self.tables.values()]
        known = [time for time in times if time is not None]
        return min(known) if known and len(known) == len(times) else None


def _later(before: Micros | None, now: Micros) -> Micros:
    return now if before is None else max(before, now)
