"""TPC-H kept fresh at one scale after the other, while there is time: the sets that have a bar first.

Orders that come and go with their lines, and random updates of all tables; 0.01 %, 0.1 % and 1 % of all rows, and 1,000
rows at every scale, where the advantage must grow. What the warming up and each set leave is published before the next,
as a run does: tables that changes were merged into are what computing anew meets there.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg
from rich.console import Console

import penstock
from penstock.bench.figure import Figure, seconds
from penstock.bench.tpch.tables import TABLES
from penstock.bench.views import report
from penstock.bench.views.changes import Changes
from penstock.bench.views.ground import follow, load
from penstock.bench.views.measure import Measure, Run
from penstock.bench.views.settings import Budget, queries, scales
from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres

FIXED = 1_000


@dataclass(frozen=True)
class Set:
    """A kind of change, and how much of it: a share of all rows, or FIXED rows."""

    kind: Literal["orders", "updates"]
    share: float | None
    least: float | None = None  # the bar: how many times faster the middle query is

    @property
    def size(self) -> str:
        return f"{FIXED:,} rows" if self.share is None else f"{self.share:.2%}"

    def rows(self, total: int) -> int:
        return FIXED if self.share is None else round(total * self.share)


SETS: Sequence[Set] = (
    Set("orders", 0.001, 5.0), Set("updates", 0.001, 1.5), Set("orders", None), Set("orders", 0.01, 3.0),
    Set("updates", None), Set("updates", 0.01, 1.5), Set("orders", 0.0001), Set("updates", 0.0001, 1.5),
)  # fmt: skip


def run(console: Console) -> list[Figure]:
    budget, asked, figures = Budget(), scales(), list[Figure]()
    fixed: dict[str, list[tuple[float, float]]] = {"orders": [], "updates": []}
    for scale in asked:
        if budget.left < 0:
            figures.append(Figure(f"TPC-H at scale {scale:g}", f"no time left of {budget.minutes:g} minutes"))
            continue
        measured = at_scale(console, scale, budget)
        last = scale == asked[-1]
        for one, runs in measured.items():
            figures.append(report.speed(f"scale {scale:g}, {one.kind}, {one.size}", runs, one.least if last else None))
            if one.share is None:
                fixed[one.kind].append((scale, statistics.median(run.faster for run in runs)))
        figures.append(report.auto(f"scale {scale:g}", [run for runs in measured.values() for run in runs], bar=last))
        figures += [
            Figure(f"scale {scale:g}, {one.kind}, {one.size}", f"not measured: {budget.minutes:g} minutes are over")
            for one in SETS if one not in measured
        ]  # fmt: skip
    return figures + [report.growth(kind, found) for kind, found in fixed.items() if len(found) > 1]


def at_scale(console: Console, scale: float, budget: Budget) -> dict[Set, list[Run]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "tpch", SOURCE_SETTINGS)
        try:
            console.print(f"TPC-H at scale {scale:g} into PostgreSQL; {budget.left / 60:.0f} minutes left")
            with console.status("loading"):
                source = psycopg.connect(server.dsn, autocommit=True)
                load(source, Path(folder) / "csv", scale)
            with penstock.connect(home=Path(folder) / "home", config={"spark_memory": "4g"}) as ps:
                return _measured(console, ps, Changes(source), server.dsn, scale, budget)
        finally:
            server.stop()


def _measured(
    console: Console, ps: penstock.Session, changes: Changes, dsn: str, scale: float, budget: Budget
) -> dict[Set, list[Run]]:
    with console.status("copy, first refresh, publish"):
        chosen = queries()
        taken = seconds(lambda: follow(ps, dsn, chosen))
    total, measure, found = changes.total(), Measure(ps), dict[Set, list[Run]]()
    console.print(f"TPC-H at scale {scale:g}: {total:,} rows; {len(chosen)} views made twice in {taken:.0f} s")
    for kind in ("orders", "updates"):  # Spark compiles what it runs the first times
        console.print(f"warming up with {kind}; {budget.left / 60:.0f} minutes left")
        _changed(ps, changes, Set(kind, 0.0001), total)
        for query in chosen:
            if budget.left > 0:
                with console.status(f"warming up: {kind}, {query}"):
                    measure.query(query)
    _publish(console, ps)
    for one in SETS:
        if budget.left < 0:
            break
        with console.status(f"{one.kind}, {one.size}: change, capture"):
            _changed(ps, changes, one, total)
        runs = list[Run]()
        for query in chosen:
            with console.status(f"{one.kind}, {one.size}: {query}"):
                runs.append(measure.query(query))
        console.print(report.table(f"scale {scale:g}, {one.kind}, {one.size}", runs))
        for line in report.slow(runs, one.least or 1.5):
            console.print(line, highlight=False)
        found[one] = runs
        _publish(console, ps)
    return found


def _publish(console: Console, ps: penstock.Session) -> None:
    with console.status("publish"):
        for table in TABLES:
            ps.publish(table.name)


def _changed(ps: penstock.Session, changes: Changes, one: Set, total: int) -> None:
    (changes.orders if one.kind == "orders" else changes.updates)(one.rows(total))
    ps.catch_up()
