"""`run()`: capture all the time, refresh what is due in one round at one frontier, publish beside it.

The changelog's upkeep goes on beside it, in a thread of its own. A second `run()` on the same home waits until the
first one has ended, however that came about.

An error that may pass (its class says so) is waited out with growing pauses; one of a single stream table is its own
affair; any other ends the run.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.catalog import sources
from penstock.catalog.sources import Source
from penstock.errors import Busy, PenstockError, SchemaChanged
from penstock.refresh.follow import follow_views
from penstock.refresh.pace import Pace
from penstock.refresh.publisher import Publisher
from penstock.refresh.scheduled_verify import ScheduledVerification
from penstock.refresh.scheduler import Scheduler, turn
from penstock.refresh.source_guard import guard
from penstock.refresh.upkeep import Upkeep

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

log = logging.getLogger("penstock.run")

_LONGEST_PAUSE = 30.0
_SOON = 0.0  # seconds to the next look where changes come in: each costs what it takes
# Objects per collection, and collections per one of the next kind: a turn makes thousands that need none.
_COLLECTIONS = (20_000, 20, 50)
_VIEWS = 30.0  # seconds between two looks at the views of sources


def run(engine: Engine, stop: threading.Event) -> None:
    stop.clear()
    Pace.of(engine.settings.publish_interval)  # a wrong one is an error now, not when it is first used
    lease = turn(engine, stop)
    if lease is not None:
        with lease:
            _run(engine, stop)


def _run(engine: Engine, stop: threading.Event) -> None:
    guard(engine)
    gc.collect()
    gc.freeze()  # a full collection would look at all of it again, for a tenth of a second, once a minute
    usual = gc.get_threshold()
    gc.set_threshold(*_COLLECTIONS)
    upkeep = Upkeep(engine)
    publisher = Publisher(engine, stop)
    publisher.start()
    try:
        _work(engine, publisher, upkeep, stop)
    finally:
        stop.set()
        upkeep.end()
        publisher.end()
        gc.set_threshold(*usual)
        gc.unfreeze()
    upkeep.check()


def _work(engine: Engine, publisher: Publisher, upkeep: Upkeep, stop: threading.Event) -> None:
    said: set[str] = set()
    known: list[Source] = []  # looked up once a turn, which captures several times
    scheduler = Scheduler(engine, stop, lambda: capture(engine, said, known, wait=False))
    verifying = ScheduledVerification(engine)
    views = SourceViewWatch(engine)
    tick = engine.settings.scheduler_interval
    pause, busy = tick, False
    while not stop.is_set():
        try:
            upkeep.step()
            known[:] = sources.every(engine.catalog)
            away = capture(engine, said, known, wait=not busy)
            views.tick()
            done = scheduler.tick()
            verifying.tick()
            if away is not None:
                raise away
            busy = any(one.inserted or one.deleted for one in done.values())
            pause = _SOON if busy else tick
            if publisher.failure is not None:
                raise publisher.failure
        except PenstockError as error:
            if not error.transient:
                raise
            pause = min(max(pause, 0.1) * 2, _LONGEST_PAUSE)
            log.warning("%s; trying again in %.1f s", error.message, pause)
            engine.captures.close()
        except KeyboardInterrupt:
            return
        stop.wait(pause)


class SourceViewWatch:
    """Looks now and then whether views of the sources that stream tables were defined over are still the same."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last = time.monotonic()

    def tick(self) -> None:
        if time.monotonic() - self._last >= _VIEWS:
            self._last = time.monotonic()
            follow_views(self._engine.catalog, self._engine.plans, self._engine.home)


def capture(
    engine: Engine, said: set[str], known: Sequence[Source] | None = None, *, wait: bool = True
) -> PenstockError | None:
    """Copies that are under way go on with the next turn. Returns what keeps a source away for a while.

    While changes come in all the time, what is still on its way from the server is not worth waiting for.
    A source that is paused, or that another process captures, is told of once; what it has can be refreshed.
    """
    try:
        engine.capture(known=known, finish=False, wait=wait)
    except (SchemaChanged, Busy) as error:
        if error.message not in said:
            said.add(error.message)
            log.error("paused: %s", error)
    except PenstockError as error:
        if not error.transient:
            raise
        return error
    return None
