"""TPC-H kept fresh: each query's differential refresh against a full recompute of it, in one Spark session.

Two streams of changes, each in several sizes: orders that come and go with their lines, and random updates of rows of
all tables; and a fixed number of changes, whatever the scale. Beside the seconds stand the rows that Spark read, which
do not depend on the machine (rows that a differential refresh looks up in files without Spark are not among them).
PENSTOCK_BENCH_TPCH is the scale, 0.1 by default.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

import penstock
from penstock.bench.figure import Figure, seconds
from penstock.bench.tpch.queries import QUERIES
from penstock.bench.tpch.tables import TABLES, generate
from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres
from penstock.errors import UnsupportedQuery

SHARES = (0.0001, 0.001, 0.01)
FIXED = 1_000


@dataclass(frozen=True)
class Run:
    """One refresh of one query both ways."""

    query: str
    differential: float
    full: float
    differential_rows: int
    full_rows: int

    @property
    def faster(self) -> float:
        return self.full / self.differential


@dataclass
class Bench:
    ps: penstock.Session
    source: psycopg.Connection[tuple[object, ...]]
    queries: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    rounds: int = 0

    def create(self, names: Sequence[str] = tuple(QUERIES)) -> None:
        for name in names:
            sql = QUERIES[name]
            try:
                self.ps.create_stream_table(name, sql, mode="DIFFERENTIAL")
            except UnsupportedQuery as error:
                self.refused[name] = error.message
                continue
            self.ps.create_stream_table(f"{name}_full", sql, mode="FULL")
            self.queries.append(name)

    def measure(self, change: Callable[[], None]) -> Iterator[Run]:
        change()
        self.ps.catch_up()
        for name in self.queries:
            taken, rows = self._refreshed(name)
            whole, all_rows = self._refreshed(f"{name}_full")
            yield Run(name, taken, whole, rows, all_rows)

    def _refreshed(self, name: str) -> tuple[float, int]:
        before = self._rows_read()
        return seconds(lambda: self.ps.refresh(name)), self._rows_read() - before

    def _rows_read(self) -> int:
        """What all stages of the session have read from files so far."""
        jvm = self.ps.spark.sparkContext._jsc.sc()
        jvm.listenerBus().waitUntilEmpty()
        stages = jvm.statusStore().stageList(None)
        return sum(stages.apply(place).inputRecords() for place in range(stages.size()))

    def orders(self, rows: int) -> None:
        """Half of `rows` leave and half come: orders, about four lines each, with them."""
        self.rounds += 1
        orders = max(1, rows // 10)
        with self.source.transaction():
            run = self.source.execute
            keys = run("SELECT o_orderkey FROM orders ORDER BY md5(o_orderkey::text || %s) LIMIT %s",
                       (str(self.rounds), 2 * orders)).fetchall()  # fmt: skip
            leaving, like = [key for (key,) in keys[:orders]], [key for (key,) in keys[orders:]]
            first = 1_000_000_000 + self.rounds * 10_000_000
            self._copied("orders", "o_orderkey", first, like)
            self._copied("lineitem", "l_orderkey", first, like)
            run("DELETE FROM lineitem WHERE l_orderkey = ANY(%s)", (leaving,))
            run("DELETE FROM orders WHERE o_orderkey = ANY(%s)", (leaving,))

    def _copied(self, table: str, key: str, first: int, like: list[object]) -> None:
        columns = next(found.columns for found in TABLES if found.name == table)
        cells = ", ".join(f"{key} + {first}" if name == key else name for name, _ in columns)
        self.source.execute(f"INSERT INTO {table} SELECT {cells} FROM {table} WHERE {key} = ANY(%s)", (like,))

    def updates(self, rows: int) -> None:
        """Rows of all tables, by their sizes; one column of each that queries compute with."""
        self.rounds += 1
        touched = {
            "lineitem": "l_quantity = l_quantity + 1", "orders": "o_totalprice = o_totalprice + 1",
            "partsupp": "ps_supplycost = ps_supplycost + 1", "customer": "c_acctbal = c_acctbal + 1",
            "part": "p_size = 1 + p_size % 50", "supplier": "s_acctbal = s_acctbal + 1",
        }  # fmt: skip
        sizes = {name: self._size(name) for name in touched}
        with self.source.transaction():
            for name, assignment in touched.items():
                share = round(rows * sizes[name] / sum(sizes.values()))
                picked = f"SELECT ctid FROM {name} ORDER BY md5(ctid::text || '{self.rounds}') LIMIT {max(1, share)}"
                self.source.execute(f"UPDATE {name} SET {assignment} WHERE ctid = ANY(ARRAY({picked}))")

    def _size(self, table: str) -> int:
        ((count,),) = self.source.execute(f"SELECT count(*) FROM {table}").fetchall()
        assert isinstance(count, int)
        return count

    def total(self) -> int:
        return sum(self._size(table.name) for table in TABLES)


def run(console: Console) -> list[Figure]:
    scale = float(os.environ.get("PENSTOCK_BENCH_TPCH", "0.1"))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "tpch", SOURCE_SETTINGS)
        try:
            with console.status(f"TPC-H at scale {scale:g} into PostgreSQL"):
                source = psycopg.connect(server.dsn, autocommit=True)
                load(source, Path(folder) / "csv", scale)
            with penstock.connect(home=Path(folder) / "home", config={"spark_memory": "4g"}) as ps:
                return _measured(console, Bench(ps, source), server.dsn)
        finally:
            server.stop()


def load(source: psycopg.Connection[tuple[object, ...]], folder: Path, scale: float) -> None:
    for table, file in zip(TABLES, generate(folder, scale).values(), strict=True):
        source.execute(table.ddl)
        with (
            source.cursor().copy(f"COPY {table.name} FROM STDIN (FORMAT csv, HEADER)") as copy,
            file.open("rb") as rows,
        ):
            while chunk := rows.read(1 << 20):
                copy.write(chunk)
        source.execute(f"ANALYZE {table.name}")


def _measured(console: Console, bench: Bench, dsn: str) -> list[Figure]:
    with console.status("copy, first refresh, publish"):
        bench.ps.add_source("tpch", dsn, tables=["public.*"])
        bench.create()
        for table in TABLES:
            bench.ps.publish(table.name)
        bench.ps.refresh_all()
    total, figures = bench.total(), list[Figure]()
    sizes = [(f"{share:.2%}", round(total * share)) for share in SHARES] + [(f"{FIXED:,} changes", FIXED)]
    bars = {("orders", "0.10%"): 5.0, ("orders", "1.00%"): 3.0}
    for kind, change in (("orders", bench.orders), ("updates", bench.updates)):
        for label, rows in sizes:
            with console.status(f"{kind}, {label}"):
                runs = list(bench.measure(lambda change=change, rows=rows: change(rows)))  # type: ignore[misc]
            console.print(_table(f"{kind} with their lines" if kind == "orders" else "random updates", label, runs))
            middle = statistics.median(one.faster for one in runs)
            least = bars.get((kind, label), 1.5 if kind == "updates" else 0.0)
            figures.append(Figure(f"{kind}, {label}: differential against full, median of {len(runs)}",
                                  f"{middle:.1f}×", f"≥ {least:g}×" if least else "",
                                  middle >= least if least else None))  # fmt: skip
    figures += [Figure(f"{name} has no rule", message) for name, message in bench.refused.items()]
    return figures


def _table(kind: str, label: str, runs: list[Run]) -> Table:
    table = Table("query", "differential", "full", "faster", "rows read", "by full", title=f"{kind}, {label}")
    for one in runs:
        table.add_row(one.query, f"{one.differential:.2f} s", f"{one.full:.2f} s", f"{one.faster:.1f}×",
                      f"{one.differential_rows:,}", f"{one.full_rows:,}")  # fmt: skip
    return table
