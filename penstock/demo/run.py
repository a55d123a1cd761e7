"""The demo's flow: a shop opens, penstock keeps up with it, and at the end everything is compared with the source.

Whatever ends it (time, Ctrl-C, an error), the workload, Spark, the catalog and the shop's server are stopped.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import psycopg

from penstock.demo import shop
from penstock.demo.dashboard import Display, Picture, View
from penstock.demo.home import fresh
from penstock.embedded import SOURCE_SETTINGS, EmbeddedPostgres
from penstock.lsn import Lsn

if TYPE_CHECKING:
    from penstock.cut import Frontier
    from penstock.session import Session

SOURCE = "shop"
VIEWS = {
    "open_orders": """
        SELECT o.id AS order_id, c.name AS customer, c.city, o.total, o.placed_at
        FROM orders o JOIN customers c ON c.id = o.customer_id
        WHERE o.status = 'open'""",
    "revenue_by_city": """
        SELECT c.city, count(*) AS lines, sum(l.amount) AS revenue, avg(l.amount) AS average
        FROM order_lines l
        JOIN orders o ON o.id = l.order_id
        JOIN customers c ON c.id = o.customer_id
        GROUP BY c.city""",
    "big_cities": """
        SELECT city, revenue FROM revenue_by_city WHERE revenue >= 500000""",
}
_CYCLE = 1.0  # seconds: the least time from one refresh to the next
_PUBLISH = 10.0  # seconds between two publishes while the shop is open


@dataclass(frozen=True)
class Options:
    """`seconds` is None for a demo that runs until Ctrl-C."""

    home: Path
    seconds: float | None = 60
    rate: float = 40


def run(options: Options, display: Display | None = None) -> bool:
    """Run the demo; returns whether everything equalled the source at the end."""
    display = display or Display()
    with ExitStack() as stack:
        replaced = stack.enter_context(fresh(options.home))
        display.say(f"{'Starting afresh, replacing the demo' if replaced else 'The demo lives'} in {options.home}/")
        server = _open_shop(stack, display, options.home)
        session = _connect(stack, display, options.home)
        _capture(session, server.dsn, display)
        _watch(session, server.dsn, options, display)
        return _finish(session, display, options.home)


def _open_shop(stack: ExitStack, display: Display, home: Path) -> EmbeddedPostgres:
    with display.step("PostgreSQL for the shop"):
        server = EmbeddedPostgres(home / "shop-server", SOURCE_SETTINGS)
        stack.callback(server.stop)
    with (
        display.step(f"Tables with {shop.ORDERS:,} orders"),
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        shop.create(connection)
    return server


def _connect(stack: ExitStack, display: Display, home: Path) -> Session:
    import penstock

    with display.step("penstock and its catalog"):
        session = stack.enter_context(penstock.connect(home=home))
    with display.step("Spark"):
        session.spark.range(1).count()
    return session


def _capture(session: Session, dsn: str, display: Display) -> None:
    with display.step("Copy of the shop's tables"):
        session.add_source(SOURCE, dsn, tables=["public.*"])
    with display.step(f"Views {', '.join(VIEWS)}"):
        for name, query in VIEWS.items():
            session.create_stream_table(name, query, schedule="1s")
        session.refresh_all()
    with display.step("One order, followed through to Delta"):  # also gets the JVM warm
        with psycopg.connect(dsn, autocommit=True) as connection:
            shop.transact(connection, random.Random(1), shop.place_order)
        session.refresh_all(to=session.catch_up())
        session.publish("revenue_by_city")


def _watch(session: Session, dsn: str, options: Options, display: Display) -> None:
    """The live part: changes come in, views follow."""
    workload = shop.Workload(dsn, rate=options.rate)
    picture = Picture({name: View(name) for name in VIEWS}, options.seconds)
    with ExitStack() as stack:
        stop = stack.enter_context(_interruptible(options.seconds is None))
        stack.enter_context(display.live(picture))
        stack.enter_context(_sampling(dsn, workload, picture))
        stack.callback(workload.stop)
        workload.start()
        _keep_up(session, picture, stop)
        picture.doing = "closing the shop"


def _keep_up(session: Session, picture: Picture, stop: threading.Event) -> None:
    relations = cycle([*shop.TABLES, *VIEWS])
    next_publish, end = _PUBLISH, picture.length or float("inf")
    while not stop.is_set() and picture.elapsed() < end:
        started = time.monotonic()
        refresh(session, catch_up(session, picture), picture)
        if next_publish <= picture.elapsed() < end - _PUBLISH / 2:
            publish(session, next(relations), picture)
            next_publish = picture.elapsed() + _PUBLISH
        picture.doing = "waiting for changes"
        stop.wait(max(0.0, started + _CYCLE - time.monotonic()))


def catch_up(session: Session, picture: Picture) -> Frontier:
    picture.doing = "capturing"
    started = time.monotonic()
    frontier = session.catch_up()
    picture.captured = frontier[SOURCE]
    picture.did(f"captured up to {picture.captured}", time.monotonic() - started)
    return frontier


def refresh(session: Session, frontier: Frontier, picture: Picture) -> None:
    """All views at one frontier, so that they agree with each other."""
    picture.doing = "refreshing the views"
    for name, result in session.refresh_all(to=frontier).items():
        view = picture.views[name]
        view.position, view.action, view.seconds = result.frontier[SOURCE], result.action, result.seconds
        view.changed = result.inserted + result.deleted
        picture.did(f"{name}: {result.action}, +{result.inserted} −{result.deleted}", result.seconds)


def publish(session: Session, name: str, picture: Picture) -> None:
    picture.doing = f"publishing {name}"
    done = session.publish(name)
    picture.did(f"{name}: its Delta table {done.how}", done.seconds)


def _finish(session: Session, display: Display, home: Path) -> bool:
    with display.step("Last changes captured, views refreshed"):
        session.refresh_all(to=session.catch_up())
    with display.step("Delta tables published"):
        published = [session.publish(name) for name in (*shop.TABLES, *VIEWS)]
    with display.step("Everything compared with the shop's database"):
        outcome = session.verify(SOURCE)
    display.outcome(outcome.ok, str(outcome))
    display.say("The Delta tables, for any engine that reads Delta:")
    for done in published:
        display.say(f"  {done.path}  [dim]{done.rows:,} rows[/]")
    display.say(f'More: [bold]{_command()} sql --home {home} "SELECT * FROM revenue_by_city ORDER BY revenue DESC"[/]')
    return outcome.ok


def _command() -> str:
    """How to call penstock from here: by its name where that is on the PATH, else where it is installed."""
    return "penstock" if shutil.which("penstock") else os.path.relpath(Path(sys.executable).with_name("penstock"))


@contextmanager
def _interruptible(patient: bool) -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets when `patient`; a second one, or an impatient one, interrupts as usual.

    Installed after Spark has started, because Spark's own handler cancels the running query.
    """
    stop = threading.Event()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if not patient or stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _sampling(dsn: str, workload: shop.Workload, picture: Picture) -> Iterator[None]:
    """Look at the shop twice a second: where its WAL ends, and how much was done."""
    done = threading.Event()
    sampler = threading.Thread(target=_sample, args=(dsn, workload, picture, done), daemon=True, name="demo-sampler")
    sampler.start()
    try:
        yield
    finally:
        done.set()
        sampler.join()


def _sample(dsn: str, workload: shop.Workload, picture: Picture, done: threading.Event) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        seen, seen_at = 0, time.monotonic()
        while not done.wait(0.5):
            row = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone()
            now = time.monotonic()
            if row:
                picture.clock.saw(Lsn.parse(row[0]), now)
            picture.transactions, picture.rows = workload.transactions(), workload.counts()["rows"]
            picture.rates.append((picture.rows - seen) / (now - seen_at))
            seen, seen_at = picture.rows, now
