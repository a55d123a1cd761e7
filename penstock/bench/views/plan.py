"""From SQL text to the plan of the delta, and on to Spark's SQL: processor time of this process, for every query.

PostgreSQL's answers about types are recorded first, so neither it nor Spark is asked while the time is taken.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table as Shown

from penstock.bench.figure import Figure
from penstock.bench.tpch.queries import QUERIES
from penstock.bench.tpch.tables import TABLES, Table
from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres
from penstock.relation.schema import Column, Schema
from penstock.relation.types import spark_type
from penstock.views import Described, PostgresTyper, Relation, compile_view, delta
from penstock.views.typer import Typer

TURNS, MOST = 7, 0.100


class Recorded:
    """Answers from memory what PostgreSQL answered before."""

    def __init__(self, typer: Typer) -> None:
        self._typer = typer
        self._known: dict[str, tuple[Described, ...]] = {}

    def describe(self, sql: str) -> tuple[Described, ...]:
        if sql not in self._known:
            self._known[sql] = self._typer.describe(sql)
        return self._known[sql]


def relation(table: Table, typer: Typer) -> Relation:
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in table.columns)
    told = typer.describe(f"SELECT {nulls}")
    columns = tuple(
        Column(one.name, one.pg, spark_type(one.pg.arrow), nullable=one.name not in table.key) for one in told
    )
    return Relation(table.name, Schema(columns, table.key))


def planned(name: str, relations: dict[str, Relation], typer: Typer) -> tuple[float, float]:
    """Seconds to the plan of the delta, and to its SQL text."""
    start = time.process_time()
    view = compile_view(name, QUERIES[name], resolve=lambda parts: relations[parts[-1]], typer=typer)
    program = delta(view, frozenset(one.name for one in view.inputs))
    done = time.process_time()
    parted = program.parted()
    for part in parted.parts:
        assert part.sql
    parted.combined_sql()
    return done - start, time.process_time() - start


def run(console: Console) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "types", SOURCE_SETTINGS)
        try:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                return _measured(console, Recorded(PostgresTyper(connection)))
        finally:
            server.stop()


def _measured(console: Console, typer: Typer) -> list[Figure]:
    relations = {table.name: relation(table, typer) for table in TABLES}
    shown = Shown("query", "to the plan", "to Spark's SQL", title=f"processor time, the least of {TURNS}")
    plans, texts = dict[str, float](), dict[str, float]()
    for name in QUERIES:
        turns = [planned(name, relations, typer) for _ in range(TURNS)]
        plans[name], texts[name] = (min(times) for times in zip(*turns, strict=True))
        shown.add_row(name, f"{plans[name] * 1000:.0f} ms", f"{texts[name] * 1000:.0f} ms")
    console.print(shown)
    slowest, last = (max(times, key=lambda one: times[one]) for times in (plans, texts))
    plan, text = plans[slowest] * 1000, texts[last] * 1000
    return [
        Figure(f"SQL text to the plan of the delta, slowest of {len(plans)}", f"{slowest}: {plan:.0f} ms",
               f"< {MOST * 1000:.0f} ms", plan < MOST * 1000),
        Figure("and to Spark's SQL, which is kept with the plan", f"{last}: {text:.0f} ms"),
    ]  # fmt: skip
