"""What a refresh costs: with nothing to do, with 1,000 changes over a million rows, and in full.

The yardstick for the differential refresh is the same query, warm, over the change set alone: Spark reads the changed
rows of both tables from the changelog, joins and groups them. It is what this machine needs for such a query at all.
Both take turns, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from rich.console import Console

import penstock
from penstock.bench.figure import Figure, median, seconds
from penstock.catalog import relations, stream_tables
from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres
from penstock.views import full, placeholder

ORDERS, CUSTOMERS, CHANGES = 1_000_000, 20_000, 1_000
SCHEMA = f"""
    CREATE TABLE customers (id int PRIMARY KEY, city text NOT NULL);
    CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers, amount numeric(10,2));
    INSERT INTO customers SELECT i, 'city ' || i % 500 FROM generate_series(1, {CUSTOMERS}) i;
    INSERT INTO orders SELECT i, 1 + i % {CUSTOMERS}, i % 1000 FROM generate_series(1, {ORDERS}) i;
"""
QUERY = """
    SELECT c.city, count(*) AS orders, sum(o.amount) AS amount, avg(o.amount) AS mean
    FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.city
"""


class Shop:
    """Half of the changes update orders, the rest insert and delete some; `movers` customers change their city."""

    def __init__(self, dsn: str) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.round = 0

    def change(self, movers: int) -> None:
        self.round += 1
        orders = CHANGES - movers
        spread, first = ORDERS // orders, ORDERS + self.round * CHANGES
        with self.connection.transaction():
            run = self.connection.execute
            run(
                "UPDATE orders SET amount = amount + 1 WHERE id = ANY(%s)",
                ([n * spread + self.round for n in range(orders // 2)],),
            )
            run("DELETE FROM orders WHERE id = ANY(%s)", ([n * spread + 500 + self.round for n in range(orders // 4)],))
            run(
                "INSERT INTO orders SELECT i, 1 + i %% %s, 5 FROM generate_series(%s::int, %s::int) i",
                (CUSTOMERS, first, first + orders - orders // 2 - orders // 4 - 1),
            )
            run("UPDATE customers SET city = 'city ' || (id + %s) %% 500 WHERE id <= %s", (self.round, movers))


def run(console: Console) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        server = EmbeddedPostgres(Path(folder) / "shop", SOURCE_SETTINGS)
        try:
            with console.status(f"{ORDERS:,} orders into PostgreSQL"):
                shop = Shop(server.dsn)
                shop.connection.execute(SCHEMA)
            with penstock.connect(home=Path(folder) / "home", config={"spark_memory": "4g"}) as ps:
                return _measure(console, ps, shop, server.dsn)
        finally:
            server.stop()


def _measure(console: Console, ps: penstock.Session, shop: Shop, dsn: str) -> list[Figure]:
    with console.status("copy, first refresh, publish"):
        ps.add_source("shop", dsn, tables=["public.*"])
        ps.create_stream_table("revenue", QUERY, mode="DIFFERENTIAL")
        ps.create_stream_table("revenue_full", QUERY, mode="FULL")
        for name in ("orders", "customers"):
            ps.publish(name)
        ps.refresh_all()

    def change(movers: int) -> None:
        shop.change(movers)
        ps.catch_up()

    def refresh(name: str) -> None:
        done = ps.refresh(name)
        wanted = "FULL" if name == "revenue_full" else "DIFFERENTIAL"
        assert done.action == wanted, done

    def turn(movers: int) -> tuple[float, float]:
        change(movers)
        taken = seconds(lambda: refresh("revenue"))
        query = _changes_alone(ps)
        query()  # its files are new, too: only what is warm is counted
        return taken, seconds(query)

    with console.status("refreshes"):
        for movers in (0, 100) * 6:  # warm
            turn(movers)
        fact_side = [turn(0) for _ in range(7)]
        both_sides = [turn(100) for _ in range(7)]
        for _ in range(2):
            refresh("revenue_full")
            change(100)
        full_refresh = median(lambda: refresh("revenue_full"), before=lambda: change(100))
        nothing = median(lambda: ps.refresh("revenue_full"))
    with console.status("verify"):
        ps.refresh_all()
        same = ps.table("revenue").exceptAll(ps.table("revenue_full")).count() == 0
    return [
        Figure("refresh with nothing to do", f"{nothing * 1000:.1f} ms", "< 10 ms", nothing < 0.010),
        _ratio("refresh, 1,000 changes of 1M orders", fact_side, full_refresh, most=3),
        _ratio("the same with 100 of them on customers", both_sides, full_refresh, most=3),
        Figure("full refresh", f"{full_refresh:.2f} s"),
        Figure("differential and full agree", str(same), "True", same),
    ]


def _ratio(what: str, turns: Sequence[tuple[float, float]], full_refresh: float, *, most: float) -> Figure:
    taken, alone = (statistics.median(times) for times in zip(*turns, strict=True))
    return Figure(
        what,
        f"{taken:.2f} s: {taken / alone:.1f}× the query over the change set alone, warm ({alone:.2f} s), "
        f"{full_refresh / taken:.1f}× faster than full",
        f"≤ {most:g}×, ≥ 2× faster",
        taken <= most * alone and full_refresh >= 2 * taken,
    )


def _changes_alone(ps: penstock.Session) -> Callable[[], object]:
    """The view's query over the last changes of both tables, read from their segments."""
    view = ps.engine.plans.of(stream_tables.get(ps.catalog, "revenue"), relations.every(ps.catalog)).view
    program = full(view, "spark")
    now = ps.frontier()["shop"]
    for read in program.reads:
        relation = relations.find(ps.catalog, read.relation)
        last = relations.segments(ps.catalog, relation.id, -1, now)[-1]
        ps.spark.read.parquet(str(ps.home.path(last.path))).createOrReplaceTempView(placeholder(read))
    return lambda: ps.spark.sql(program.outputs["view"].sql).toArrow()
