"""The states of a stream table and what moves it from one to another.

Who may move it: a refresh (REFRESHED, FAILED_OFTEN, MISFIT, FITS) or a person (HELD, RESUMED, REBUILT), nobody else. A
pair that the table does not have is a mistake of the caller.
"""

from __future__ import annotations

from enum import StrEnum

from penstock.errors import ConfigError


class Status(StrEnum):
    """Where a stream table is in its life."""

    INITIALIZING = "INITIALIZING"  # defined, and never filled
    ACTIVE = "ACTIVE"  # filled, and refreshed on schedule
    SUSPENDED = "SUSPENDED"  # not refreshed: a person said so, or it does not fit what it reads
    ERROR = "ERROR"  # not refreshed on schedule: it failed too often in a row


class Event(StrEnum):
    """What happens to a stream table."""

    REFRESHED = "refreshed"
    FAILED_OFTEN = "failed too often"
    MISFIT = "does not fit its inputs"
    FITS = "fits its inputs again"
    HELD = "suspended by hand"
    RESUMED = "resumed by hand"
    REBUILT = "defined anew"


_I, _A, _S, _E = Status.INITIALIZING, Status.ACTIVE, Status.SUSPENDED, Status.ERROR

MOVES: dict[tuple[Status, Event], Status] = {
    (_I, Event.REFRESHED): _A,
    (_I, Event.FAILED_OFTEN): _E,
    (_I, Event.MISFIT): _S,
    (_I, Event.HELD): _S,
    (_I, Event.RESUMED): _I,
    (_I, Event.REBUILT): _I,
    (_A, Event.REFRESHED): _A,
    (_A, Event.FAILED_OFTEN): _E,
    (_A, Event.MISFIT): _S,
    (_A, Event.HELD): _S,
    (_A, Event.RESUMED): _A,
    (_A, Event.REBUILT): _I,
    (_S, Event.MISFIT): _S,
    (_S, Event.FITS): _A,
    (_S, Event.HELD): _S,
    (_S, Event.RESUMED): _A,
    (_S, Event.REBUILT): _I,
    (_E, Event.REFRESHED): _A,  # by hand: the scheduler leaves it alone
    (_E, Event.FAILED_OFTEN): _E,
    (_E, Event.MISFIT): _S,
    (_E, Event.HELD): _S,
    (_E, Event.RESUMED): _A,
    (_E, Event.REBUILT): _I,
}


def after(status: str, event: Event, *, filled: bool = True) -> Status:
    """The next state. One that was never filled is INITIALIZING where a filled one would be ACTIVE.

    >>> after("ACTIVE", Event.HELD), after("SUSPENDED", Event.RESUMED, filled=False)
    (<Status.SUSPENDED: 'SUSPENDED'>, <Status.INITIALIZING: 'INITIALIZING'>)
    """
    move = MOVES.get((Status(status), event))
    if move is None:
        raise ConfigError(f"a stream table that is {status} cannot be {event}")
    return Status.INITIALIZING if move is Status.ACTIVE and not filled and event is not Event.REFRESHED else move


def asked(status: str) -> Event:
    """What a person means by a status in `alter`."""
    match status.upper():
        case "ACTIVE":
            return Event.RESUMED
        case "SUSPENDED":
            return Event.HELD
    raise ConfigError(
        f"a stream table cannot be put into status {status!r}",
        hint="Choose ACTIVE (resume it) or SUSPENDED; the other states are reached by refreshes.",
    )
