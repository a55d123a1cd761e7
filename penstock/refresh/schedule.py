"""When a stream table is due, as its owner writes it.

    30s, 5m, 1h30m, 2d      so long after its last refresh began
    */5 * * * *, @hourly    cron, in UTC
    on-commit, on-commit 2s as soon as something it reads has changed, at most so often
    downstream              with what reads it, or by hand; no schedule at all means the same

What was missed makes it due once, however often it was missed. Stream tables that depend on each other are due at
multiples of canonical periods, 48·2ⁿ seconds, so that they meet: 30 s becomes 24 s, 5 minutes become 192 s. Negative n
count too: whoever needs less than 48 s writes so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from croniter import croniter
from croniter.croniter import CroniterBadCronError, CroniterBadDateError

from penstock.errors import ConfigError

DOWNSTREAM = "downstream"
ON_COMMIT = "on-commit"
CANONICAL = 48.0
SHORTEST = 1.0

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+)\s*([smhd])")
_HINT = "Write an interval such as 30s, 5m or 1h30m, a cron expression, on-commit, or downstream."


@dataclass(frozen=True)
class Schedule:
    """A stream table is due this many seconds after its last refresh began.

    >>> Schedule.parse("1m30s").seconds
    90
    """

    seconds: int

    @classmethod
    def parse(cls, text: str) -> Schedule:
        squeezed = text.strip().lower().replace(" ", "")
        parts = _PART.findall(squeezed)
        if not parts or "".join(number + unit for number, unit in parts) != squeezed:
            raise ConfigError(f"{text!r} is not an interval", hint="Write one such as 30s, 5m or 1h30m.")
        seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
        if seconds < SHORTEST:
            raise ConfigError(f"schedule {text!r} is too short", hint="The shortest is 1s.")
        return cls(seconds)

    def due(self, last: datetime, now: datetime) -> bool:
        return (now - last).total_seconds() >= self.seconds


@dataclass(frozen=True)
class Canonical:
    """Due when a multiple of the period has passed since its last refresh began."""

    seconds: float

    def due(self, last: datetime, now: datetime) -> bool:
        return now.timestamp() // self.seconds > last.timestamp() // self.seconds


@dataclass(frozen=True)
class Cron:
    expression: str

    def due(self, last: datetime, now: datetime) -> bool:
        try:
            return bool(croniter(self.expression, last.astimezone(UTC)).get_next(datetime) <= now)
        except CroniterBadDateError:  # such as 30 February
            return False


@dataclass(frozen=True)
class OnCommit:
    """Due when something has changed, and the gap since its last refresh began has passed."""

    gap: float | None = None  # None: the home's setting

    def due(self, last: datetime, now: datetime, least: float = 0.0) -> bool:
        return now - last >= timedelta(seconds=least if self.gap is None else self.gap)


@dataclass(frozen=True)
class Downstream:
    pass


When = Schedule | Canonical | Cron | OnCommit | Downstream


def parse(text: str | None) -> When:
    """
    >>> parse("5m"), parse("@hourly"), parse("on-commit 2s"), parse(None)
    (Schedule(seconds=300), Cron(expression='@hourly'), OnCommit(gap=2.0), Downstream())
    """
    if text is None or text.strip().lower() == DOWNSTREAM:
        return Downstream()
    written = " ".join(text.split())
    if written.lower().startswith(ON_COMMIT):
        rest = written[len(ON_COMMIT) :].strip()
        return OnCommit(float(Schedule.parse(rest).seconds) if rest else None)
    if written.startswith("@") or len(written.split()) == 5:
        return _cron(written)
    try:
        return Schedule.parse(written)
    except ConfigError as error:
        raise ConfigError(f"{text!r} is not a schedule" if "not an" in error.message else error.message,
                          hint=_HINT) from None  # fmt: skip


def stored(text: str | None) -> str | None:
    """How a schedule is written down: checked, and nothing for one that only follows others.

    >>> stored(" 1H 30m "), stored("downstream"), stored("On-Commit")
    ('1h30m', None, 'on-commit')
    """
    match parse(text):
        case Downstream():
            return None
        case Cron(expression):
            return expression
        case OnCommit():
            return " ".join(str(text).lower().split())
        case _:
            return "".join(str(text).lower().split())


def is_often(text: str | None, seconds: float) -> bool:
    """Whether a schedule makes a stream table due at least every so many seconds, if something changes.

    >>> is_often("30s", 60), is_often("on-commit", 60), is_often("1h", 60), is_often(None, 60)
    (True, True, False, False)
    """
    match parse(text):
        case Schedule(every):
            return every <= seconds
        case OnCommit(gap):
            return (gap or 0.0) <= seconds
        case _:
            return False


def canonical(seconds: float) -> float:
    """The largest 48·2ⁿ seconds that are not more than an interval.

    >>> [canonical(one) for one in (1, 10, 48, 60, 300, 3600)]
    [0.75, 6.0, 48.0, 48.0, 192.0, 3072.0]
    """
    period = CANONICAL
    while period > seconds:
        period /= 2
    while period * 2 <= seconds:
        period *= 2
    return period


def _cron(expression: str) -> Cron:
    try:
        croniter(expression, datetime.now(UTC))
    except (CroniterBadCronError, ValueError, KeyError) as error:
        raise ConfigError(f"{expression!r} is not a cron expression: {error}", hint=_HINT) from None
    return Cron(expression)
