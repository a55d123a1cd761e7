"""What refreshes of a stream table took, and what the next one may be expected to take.

Only the last refreshes count, so that an estimate that led to full ones is given up after a while and tried again.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

WINDOW = 20  # refreshes that are looked at
_FAR = 2.0
_FIXED = 5_000  # rows up to which a difference takes the time of its plan and of Spark's own


@dataclass(frozen=True)
class Compared:
    """Seconds that either way is expected to take."""

    differential: float
    full: float

    @property
    def full_is_far_cheaper(self) -> bool:
        return self.full * _FAR < self.differential

    @property
    def differential_is_far_cheaper(self) -> bool:
        return self.differential * _FAR < self.full


@dataclass(frozen=True)
class Costs:
    """Seconds of full refreshes, newest first, and of differential ones with the rows that had changed."""

    full: tuple[float, ...] = ()
    differential: tuple[tuple[int, float], ...] = ()

    def compare(self, changed_rows: int) -> Compared | None:
        """None while one of the ways was not gone lately.

        A difference takes as long as the last one of about the same size; per row where that one was smaller and rows
        are what takes the time.

        >>> Costs((2.0,), ((1000, 0.5), (10, 0.3))).compare(4000)
        Compared(differential=0.5, full=2.0)
        >>> Costs((2.0,), ((1000, 0.5), (10, 0.3))).compare(20_000)
        Compared(differential=2.0, full=2.0)
        >>> Costs((2.0,), ()).compare(10) is None
        True
        """
        if not self.full or not self.differential:
            return None
        rows, seconds = min(self.differential, key=lambda one: abs(log((one[0] + 1) / (changed_rows + 1))))
        return Compared(seconds * max(1.0, changed_rows / max(rows, _FIXED)), self.full[0])


UNKNOWN = Costs()
