"""Named places where a test may stop the program: `hit("name")` costs one dict look-up when nothing is armed.

`PENSTOCK_FAILPOINTS="name=kill"` (or `name=raise`, several separated by commas, `name*3=kill` for the third hit) arms
them for a whole process; `arm` does it from inside one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Action = Literal["kill", "raise"]


class FailpointReached(RuntimeError):
    """Raised at an armed failpoint: stands for a crash, so nothing may handle it."""


_armed: dict[str, tuple[Action, int]] = {}


def hit(name: str) -> None:
    if name not in _armed:
        return
    action, left = _armed[name]
    if left > 1:
        _armed[name] = (action, left - 1)
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    del _armed[name]
    raise FailpointReached(name)


@contextmanager
def arm(name: str, *, action: Action = "raise", after: int = 1) -> Iterator[None]:
    _armed[name] = (action, after)
    try:
        yield
    finally:
        _armed.pop(name, None)


def arm_from_environment(setting: str | None = None) -> None:
    text = os.environ.get("PENSTOCK_FAILPOINTS", "") if setting is None else setting
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, action = part.partition("=")
        name, _, after = name.partition("*")
        if action not in ("kill", "raise"):
            raise ValueError(f"failpoint {part!r}: expected name=kill or name=raise")
        _armed[name] = ("kill" if action == "kill" else "raise", int(after or 1))


arm_from_environment()
