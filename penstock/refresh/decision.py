"""What a refresh does, and why: a pure function from the situation of a stream table to an action."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.cut import Frontier
from penstock.errors import ConfigError, NotYet

# Past this share of changed rows, computing everything is cheaper than computing the difference; with few changed rows
# the two cost the same, and the difference is the one that stays cheap.
MAX_CHANGE_RATIO = 0.15
FEW_ROWS = 100

IMMEDIATE = "IMMEDIATE"


class Mode(StrEnum):
    """How a stream table is to be kept fresh; AUTO chooses between the other two at each refresh."""

    AUTO = "AUTO"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"

    @classmethod
    def parse(cls, text: str) -> Mode:
        if text.upper() == IMMEDIATE:
            raise NotYet("mode IMMEDIATE", hint="Use AUTO with schedule 'on-commit': it follows each commit at once.")
        try:
            return cls(text.upper())
        except ValueError:
            raise ConfigError(f"no refresh mode {text!r}", hint=f"Choose one of {', '.join(cls)}.") from None


class Action(StrEnum):
    """What one refresh did."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    SKIP = "SKIP"


@dataclass(frozen=True)
class Situation:
    """Where a stream table is, where it should go, and how much lies between: counts that cost no Spark job."""

    mode: Mode
    frontier: Frontier | None
    target: Frontier
    changed_rows: int
    input_rows: int


@dataclass(frozen=True)
class Decision:
    action: Action
    reason: str


def decide(now: Situation) -> Decision:
    if now.frontier is None:
        return Decision(Action.FULL, "first refresh")
    if now.frontier == now.target:
        return Decision(Action.NO_DATA, "already at this frontier")
    if now.changed_rows == 0:
        return Decision(Action.NO_DATA, "no input changed")
    if now.mode is Mode.FULL:
        return Decision(Action.FULL, "mode FULL")
    ratio = now.changed_rows / max(now.input_rows, 1)
    if now.mode is Mode.AUTO and ratio > MAX_CHANGE_RATIO and now.changed_rows > FEW_ROWS:
        share = f"{ratio:.0%} of the inputs' rows changed"
        return Decision(Action.FULL, f"{share}, more than {MAX_CHANGE_RATIO:.0%}")
    return Decision(Action.DIFFERENTIAL, f"{now.changed_rows:,} changed rows")
