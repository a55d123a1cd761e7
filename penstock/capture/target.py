"""A position that somebody waits for, and when to help a quiet server to reach it."""

from __future__ import annotations

import time

from penstock.lsn import Lsn

_QUIET, _LONGEST = 0.06, 30.0  # seconds


class Target:
    """`is_stuck` is True once nothing came for a while, then ever more rarely: a server may also be busy decoding."""

    def __init__(self, lsn: Lsn) -> None:
        self.lsn = lsn
        self._pause = _QUIET
        self._due = time.monotonic() + _QUIET

    def moved(self) -> None:
        """Transactions arrive: the server does not need help."""
        self._due = time.monotonic() + self._pause

    def is_stuck(self) -> bool:
        if time.monotonic() < self._due:
            return False
        self._pause = min(self._pause * 4, _LONGEST)
        self._due = time.monotonic() + self._pause
        return True
