"""Where rows stand in the stream: increasing numbers, mostly one after the other, which take no memory then."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.capture.fields import Ints


@dataclass(frozen=True)
class Positions:
    """`count` numbers from `first` on; where there are gaps, `listed` has them all, counted from `first`.

    >>> p = Positions.of(np.array([3, 4, 5])).shifted(10)
    >>> p.listed, p.first, p.last, p.between(14, 99), p.values(1)
    (None, 13, 15, (1, 3), array([14, 15]))
    >>> q = Positions.of(np.array([3, 5, 9]))
    >>> q.first, q.last, q.between(4, 9), q.values(), q.only(q.values() > 3).values()
    (3, 9, (1, 2), array([3, 5, 9]), array([5, 9]))
    """

    first: int
    count: int
    listed: Ints | None = None

    @classmethod
    def of(cls, values: Ints) -> Positions:
        first, last = int(values[0]), int(values[-1])
        return cls(first, len(values), None if last - first + 1 == len(values) else values - first)

    @property
    def last(self) -> int:
        return self.first + (self.count - 1 if self.listed is None else int(self.listed[-1]))

    def shifted(self, by: int) -> Positions:
        return replace(self, first=self.first + by)

    def is_followed_by(self, other: Positions) -> bool:
        """Whether both together have no gap."""
        return self.listed is None and other.listed is None and self.first + self.count == other.first

    def between(self, low: int, high: int) -> tuple[int, int]:
        """From which to which row they are at least `low` and below `high`."""
        if self.listed is None:
            start, stop = (min(max(end - self.first, 0), self.count) for end in (low, high))
            return start, stop
        start, stop = np.searchsorted(self.listed, (low - self.first, high - self.first))
        return int(start), int(stop)

    def values(self, start: int = 0, stop: int | None = None) -> Ints:
        """Those of the rows from `start` up to `stop`."""
        if self.listed is None:
            return np.arange(self.first + start, self.first + (self.count if stop is None else stop), dtype=np.int64)
        return self.listed[start:stop] + self.first

    def only(self, keep: npt.NDArray[np.bool_]) -> Positions:
        return Positions.of(self.values()[keep])
