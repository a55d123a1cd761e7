"""When a relation is published: by itself and within a share of the time, at an interval, at every cut, or by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.errors import ConfigError
from penstock.refresh.schedule import Schedule

Kind = Literal["adaptive", "interval", "every-cut", "manual"]


@dataclass(frozen=True)
class Pace:
    """
    >>> Pace.parse("adaptive").kind, Pace.parse("1m30s"), Pace.parse("every-cut").kind
    ('adaptive', Pace(kind='interval', seconds=90.0), 'every-cut')
    """

    kind: Kind
    seconds: float = 0.0

    @classmethod
    def of(cls, given: str | float) -> Pace:
        """A number is seconds."""
        if isinstance(given, str):
            return cls.parse(given)
        if given < 1:
            raise ConfigError(f"publishing every {given} s is too often", hint="The shortest interval is 1 s.")
        return cls("interval", float(given))

    @classmethod
    def parse(cls, text: str) -> Pace:
        match text.strip().lower():
            case "adaptive" | "every-cut" | "manual" as kind:
                return cls(kind)
        try:
            return cls("interval", float(Schedule.parse(text).seconds))
        except ConfigError:
            raise ConfigError(
                f"{text!r} is not a pace of publishing",
                hint="Write adaptive, every-cut, manual, or an interval such as 30s or 5m.",
            ) from None

    def due(self, age: float | None, *, rested: bool) -> bool:
        """`age`: seconds since the last publish (None: never); `rested`: adaptive publishing has had its pause.

        >>> Pace("interval", 10.0).due(9.0, rested=True), Pace("interval", 10.0).due(10.0, rested=False)
        (False, True)
        """
        match self.kind:
            case "manual":
                return False
            case "every-cut":
                return True
            case "interval":
                return age is None or age >= self.seconds
            case "adaptive":
                return rested


# Each publish leaves a version with its files until VACUUM: small tables, which take no time, would make thousands.
_SHORTEST_PAUSE = 30.0


def pause_after(seconds: float, share: float) -> float:
    """How long to rest after so much publishing, so that it takes at most `share` of the time.

    >>> pause_after(20.0, 0.2), pause_after(0.1, 0.2)
    (80.0, 30.0)
    """
    return max(seconds * (1 / share - 1), _SHORTEST_PAUSE)
