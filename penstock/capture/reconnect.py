"""When to try again, and when to stop for a person: decided by the class of an error, paced by a jittered backoff.

| category | error | what happens |
| --- | --- | --- |
| connection lost, replication time-out, server restarting | SourceUnreachable | tried again, 100 ms up to 30 s |
| the slot is (still) read by another process, no WAL sender free | SlotInUse, NoSlotLeft | tried again |
| wrong password, certificate, database | AccessRefused | stops |
| slot gone, invalidated, moved by somebody else; other server | SlotLost | stops: only a person may copy anew |
| publication gone or no longer complete | PublicationLost | stops |
| shape changed, value that cannot be held | SchemaChanged, DecodeError | stops: nothing is skipped |
| WAL lag exceeded | none | goes on; health() warns |
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.errors import PenstockError

_FIRST, _LONGEST = 0.1, 30.0  # seconds


def may_retry(error: BaseException) -> bool:
    """True if the same connection may succeed later without anybody's doing."""
    return isinstance(error, PenstockError) and error.transient


def delays(rng: random.Random, first: float = _FIRST, longest: float = _LONGEST) -> Iterator[float]:
    """Seconds to wait before each attempt: doubling from `first` to `longest`, each drawn from its upper half.

    Half of it is chance, so that readers that lost one server together do not come back together.
    """
    pause = first
    while True:
        yield pause * (0.5 + rng.random() / 2)
        pause = min(pause * 2, longest)


@dataclass
class Reconnecting:
    """One lost connection: why, how often it was tried, and when to try next."""

    reason: PenstockError
    attempt: int = 0
    _delays: Iterator[float] = field(default_factory=lambda: delays(random.Random()))
    _due: float = 0.0

    def __post_init__(self) -> None:
        self._due = time.monotonic() + next(self._delays)

    def wait(self) -> float:
        """Seconds until the next attempt is due."""
        return max(0.0, self._due - time.monotonic())

    def failed(self, error: PenstockError) -> None:
        """Another attempt came to nothing."""
        self.reason = error
        self.attempt += 1
        self._due = time.monotonic() + next(self._delays)

    def __str__(self) -> str:
        return f"reconnecting (attempt {self.attempt + 1}): {self.reason.message}"
