"""Which stream tables are due: a pure function of the time and of what is known about each.

Nothing is remembered between two looks, so a scheduler that takes over from another goes on where that one was, and
what was missed meanwhile makes a stream table due once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from penstock.refresh.life import Status
from penstock.refresh.schedule import Canonical, Cron, Downstream, OnCommit, Schedule, When, canonical

QUIET = timedelta(seconds=1)  # how often the frontier moves of one for which nothing changed
LOOK_AGAIN = timedelta(seconds=10)  # at one that does not fit its inputs, or waits for them


@dataclass(frozen=True)
class Candidate:
    """What the catalog says of a stream table."""

    name: str
    when: When
    status: str
    held: bool = False  # suspended by hand
    tried_at: datetime | None = None
    retry_at: datetime | None = None  # its own, or of something it reads
    changed: bool = False  # what it reads has changed since its last refresh, or it must be computed anew
    behind: bool = False  # its frontier is not the newest
    blocked: bool = False  # something it reads is suspended or in error


def is_due(one: Candidate, now: datetime, gap: float = 0.0) -> bool:
    """`gap` is the least time between two refreshes of an on-commit one that names none."""
    if isinstance(one.when, Downstream) or one.status == Status.ERROR or one.held:
        return False
    if one.retry_at is not None and now < one.retry_at:
        return False
    if one.tried_at is None:
        return True
    if one.status == Status.SUSPENDED or one.blocked:
        return now - one.tried_at >= LOOK_AGAIN
    if not one.changed and not one.behind and one.status == Status.ACTIVE:
        return False
    match one.when:
        case OnCommit():
            return one.when.due(one.tried_at, now, gap) if one.changed else now - one.tried_at >= QUIET
        case Schedule() | Canonical() | Cron():
            return one.when.due(one.tried_at, now)
        case _:
            assert_never(one.when)


def aligned(when: When) -> When:
    """The schedule of one that others depend on, or that depends on others."""
    return Canonical(canonical(when.seconds)) if isinstance(when, Schedule) else when
