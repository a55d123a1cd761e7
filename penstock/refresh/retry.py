"""When a refresh that failed is tried again, by the class of its error.

One that may pass by itself (`transient`) is tried again after growing pauses, as long as it takes. Any other counts: at
the limit of errors in a row the stream table is left alone until a person resumes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import PenstockError

FIRST = 1.0
LONGEST = 60.0


@dataclass(frozen=True)
class Verdict:
    """`errors` in a row that count, seconds to wait, and whether that was the last try."""

    errors: int
    wait: float
    last: bool


def judge(error: Exception, errors: int, passing: int, limit: int) -> Verdict:
    """After `errors` that count and `passing` ones that do not, all in a row.

    >>> judge(PenstockError("no"), 1, 0, 3)
    Verdict(errors=2, wait=2.0, last=False)
    """
    if is_passing(error):
        return Verdict(errors, pause(passing + 1), last=False)
    return Verdict(errors + 1, pause(errors + 1), last=errors + 1 >= limit)


def is_passing(error: Exception) -> bool:
    return isinstance(error, PenstockError) and error.transient


def pause(failures: int) -> float:
    """
    >>> [pause(n) for n in (1, 2, 3, 99)]
    [1.0, 2.0, 4.0, 60.0]
    """
    return float(min(FIRST * 2 ** min(failures - 1, 16), LONGEST))
