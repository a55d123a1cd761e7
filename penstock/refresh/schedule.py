"""When a stream table is due: an interval for now."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+)\s*([smhd])")


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
            raise ConfigError(f"{text!r} is not a schedule", hint="Write an interval such as 30s, 5m or 1h30m.")
        seconds = sum(int(number) * _UNITS[unit] for number, unit in parts)
        if seconds < 1:
            raise ConfigError(f"schedule {text!r} is too short", hint="The shortest is 1s.")
        return cls(seconds)
