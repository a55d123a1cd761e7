"""What the lake costs: reading, publishing, a first mirror, verifying, idle tables; each beside the bare work.

Every figure is a ratio within one run: the contenders take turns on the same rows, and the middle turn counts.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from penstock.bench.figure import Figure
from penstock.bench.lake import idle, mirror, read, verify

PARTS: dict[str, Callable[[Console], list[Figure]]] = {
    "read": read.run,
    "mirror": mirror.run,
    "verify": verify.run,
    "idle": idle.run,
}
