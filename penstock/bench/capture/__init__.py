"""What capture costs: every bar of reading PostgreSQL's changes, beside what the server itself can give.

Rates are compared within one run: the contenders read the same backlog, each from a slot of its own, in turns, and the
middle one of three turns counts. Absolute figures are the middle one of five, and want an idle machine.
`PENSTOCK_BENCH_SCALE=0.01` makes everything smaller, to see that it runs; its figures mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType

from rich.console import Console

from penstock.bench.capture import backlog, decoding, idle, large, live, restart, snapshot
from penstock.bench.capture.ground import Ground
from penstock.bench.figure import Figure
from penstock.bench.scale import scale

_GROUPS = (backlog, decoding, live, snapshot, large, idle, restart)


def run(console: Console, groups: Sequence[ModuleType] = _GROUPS) -> list[Figure]:
    with Ground(console, scale()) as ground:
        return [figure for group in groups for figure in group.figures(ground)]


PARTS: dict[str, Callable[[Console], list[Figure]]] = {
    group.__name__.rpartition(".")[2]: partial(run, groups=[group]) for group in _GROUPS
}
