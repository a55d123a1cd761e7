"""The measured queries for people: a table per set of changes, the middle against the bar, and why some are slow."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from rich.table import Table

from penstock.bench.figure import Figure
from penstock.bench.views.measure import Run

AUTO_MOST = 1.2


def table(title: str, runs: Sequence[Run]) -> Table:
    shown = Table(
        "query", "differential", "anew", "faster", "AUTO", "", "Spark read", "looked at", "anew read", title=title
    )
    for one in runs:
        mine = one.differential
        shown.add_row(one.query, f"{mine.seconds:.2f} s", f"{one.full.seconds:.2f} s", f"{one.faster:.1f}×",
                      f"{one.auto.seconds:.2f} s", one.chosen.lower(), f"{mine.rows:,}", f"{mine.looked_up:,}",
                      f"{one.full.rows:,}")  # fmt: skip
    middle = statistics.median(one.faster for one in runs)
    shown.add_section()
    own, anew = [one.differential.seconds for one in runs], [one.full.seconds for one in runs]
    chosen = [one.auto.seconds for one in runs]
    shown.add_row("median", _middle(own), _middle(anew), f"{middle:.1f}×", _middle(chosen))
    return shown


def _middle(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} s"


def slow(runs: Sequence[Run], least: float) -> Iterator[str]:
    """What the queries below `least` had Spark scan; a query that scanned nothing pays for Spark's own fixed cost."""
    for one in sorted(runs, key=lambda run: run.faster):
        if one.faster < least:
            why = "; ".join(one.scanned) or "everything was in memory: the rest is planning and Spark's own"
            yield f"  {one.query} {one.faster:.1f}×: {why}"


def speed(what: str, runs: Sequence[Run], least: float | None) -> Figure:
    middle = statistics.median(one.faster for one in runs)
    text = f"{middle:.1f}× faster than anew (median of {len(runs)}; from {min(one.faster for one in runs):.1f}× to "
    text += f"{max(one.faster for one in runs):.1f}×)"
    if least is None:
        return Figure(what, text)
    return Figure(what, text, f"≥ {least:g}×", middle >= least)


def auto(what: str, runs: Sequence[Run], *, bar: bool) -> Figure:
    if not runs:
        return Figure(f"{what}: AUTO", "not measured")
    middle = statistics.median(one.auto_to_better for one in runs)
    ok = middle <= AUTO_MOST if bar else None
    return Figure(f"{what}: AUTO against the better of both", f"{middle:.2f} (median of {len(runs)})",
                  f"≤ {AUTO_MOST:g}" if bar else "", ok)  # fmt: skip


def growth(kind: str, found: Sequence[tuple[float, float]]) -> Figure:
    """Of a fixed number of changes, scale by scale."""
    text = ", ".join(f"{faster:.1f}× at scale {scale:g}" for scale, faster in found)
    ordered = [faster for _, faster in found]
    return Figure(f"{kind}, 1,000 rows: the advantage grows with scale", text, "grows", ordered == sorted(ordered))
