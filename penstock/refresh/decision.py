"""What a refresh does, and why: a pure function from the situation of a stream table to an action.

    SKIP          it cannot be refreshed now; it stays where it is, and so does what reads it
    FULL          never filled, asked for by its mode, or cheaper than computing the difference (AUTO)
    REINITIALIZE  what is stored cannot be the start of a difference any more
    NO_DATA       nothing it reads has changed: only its frontier moves
    DIFFERENTIAL  the difference is computed from what changed

After each of them but SKIP the stream table is at the target, so the changes up to there are not needed for it again:
a FULL refresh leaves nothing behind that could make the next one full too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.cut import Frontier
from penstock.errors import ConfigError, NotYet
from penstock.refresh.costs import UNKNOWN, Costs

# Past this share of changed rows, computing everything is cheaper than computing the difference. Few changed rows are
# looked up and computed in memory, which takes less than reading even a small table with Spark, whatever their share.
# Of very few, nothing else is looked at.
MAX_CHANGE_RATIO = 0.15
FEW_ROWS, VERY_FEW_ROWS = 5_000, 100

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
    changed_rows: int = 0
    input_rows: int = 0
    reinitialize: str | None = None  # why what is stored is no start
    skip: str | None = None  # why it cannot be refreshed
    costs: Costs = UNKNOWN
    max_change_ratio: float = MAX_CHANGE_RATIO


@dataclass(frozen=True)
class Decision:
    action: Action
    reason: str


def decide(now: Situation) -> Decision:
    if now.skip is not None:
        return Decision(Action.SKIP, now.skip)
    if now.frontier is None:
        return Decision(Action.FULL, "first refresh")
    if now.reinitialize is not None:
        return Decision(Action.REINITIALIZE, now.reinitialize)
    if now.frontier == now.target:
        return Decision(Action.NO_DATA, "already at this frontier")
    if now.changed_rows == 0:
        return Decision(Action.NO_DATA, "no input changed")
    match now.mode:
        case Mode.FULL:
            return Decision(Action.FULL, "mode FULL")
        case Mode.DIFFERENTIAL:
            return Decision(Action.DIFFERENTIAL, _rows(now.changed_rows))
        case Mode.AUTO:
            return _cheaper(now)


def _cheaper(now: Situation) -> Decision:
    """By the share of changed rows, unless what refreshes took says otherwise by far."""
    if now.changed_rows <= VERY_FEW_ROWS:
        return Decision(Action.DIFFERENTIAL, _rows(now.changed_rows))
    ratio = now.changed_rows / max(now.input_rows, 1)
    many = ratio > now.max_change_ratio and now.changed_rows > FEW_ROWS
    learned = now.costs.compare(now.changed_rows)
    if learned is not None:
        expected = f"{learned.differential:.1f} s expected by difference, a full one took {learned.full:.1f} s"
        if not many and learned.full_is_far_cheaper:
            return Decision(Action.FULL, f"{_rows(now.changed_rows)}: {expected}")
        if many and learned.differential_is_far_cheaper:
            return Decision(Action.DIFFERENTIAL, f"{_rows(now.changed_rows)}: {expected}")
    if many:
        share = f"{ratio:.0%} of the inputs' rows changed"
        return Decision(Action.FULL, f"{share}, more than {now.max_change_ratio:.0%}")
    return Decision(Action.DIFFERENTIAL, _rows(now.changed_rows))


def _rows(number: int) -> str:
    return f"{number:,} changed rows"
