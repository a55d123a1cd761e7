"""`run()`: capture all the time, refresh what is due in one round at one frontier, publish beside it.

The changelog's upkeep goes on beside it, in a thread of its own.

An error that may pass (its class says so) is waited out with growing pauses; any other ends the run.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from penstock.catalog import relations, stream_tables
from penstock.cut import Frontier
from penstock.errors import PenstockError, SchemaChanged
from penstock.refresh.pace import Pace
from penstock.refresh.positions import readable
from penstock.refresh.publisher import Publisher
from penstock.refresh.schedule import Schedule, parse
from penstock.refresh.scheduled_verify import ScheduledVerification
from penstock.refresh.upkeep import Upkeep

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

log = logging.getLogger("penstock.run")

_TICK = 0.2
_LONGEST_PAUSE = 30.0


def run(engine: Engine, stop: threading.Event) -> None:
    stop.clear()
    Pace.of(engine.settings.publish_interval)  # a wrong one is an error now, not when it is first used
    upkeep = Upkeep(engine)
    publisher = Publisher(engine, stop)
    publisher.start()
    try:
        _work(engine, publisher, upkeep, stop)
    finally:
        stop.set()
        upkeep.end()
        publisher.end()
    upkeep.check()


def _work(engine: Engine, publisher: Publisher, upkeep: Upkeep, stop: threading.Event) -> None:
    due: dict[str, float] = {}
    verifying = ScheduledVerification(engine)
    said: set[str] = set()
    pause = _TICK
    while not stop.is_set():
        try:
            upkeep.step()
            tick(engine, due, said)
            verifying.tick()
            pause = _TICK
            if publisher.failure is not None:
                raise publisher.failure
        except PenstockError as error:
            if not error.transient:
                raise
            pause = min(pause * 2, _LONGEST_PAUSE)
            log.warning("%s; trying again in %.1f s", error.message, pause)
            engine.captures.close()
        except KeyboardInterrupt:
            return
        stop.wait(pause)


def _captured(engine: Engine, said: set[str]) -> Frontier:
    """Copies that are under way go on with the next tick. A source that is paused is told of once."""
    try:
        return engine.catch_up(finish=False)
    except SchemaChanged as change:
        if change.message not in said:
            said.add(change.message)
            log.error("paused: %s", change)
        return readable(engine.catalog)


def tick(engine: Engine, due: dict[str, float], said: set[str]) -> None:
    """One round of capture and refreshes; `due` remembers when each stream table was refreshed last."""
    frontier = _captured(engine, said)
    now = time.monotonic()
    tables = [table for table in stream_tables.every(engine.catalog) if _is_due(table.name, table.schedule, due)]
    waiting = _waiting(engine) if tables else set()
    names = [table.name for table in tables if table.relation_id not in waiting]
    if names:
        for done in engine.refresh(names, frontier).values():
            log.info("%s: %s, +%d -%d in %.2f s", done.name, done.action, done.inserted, done.deleted, done.seconds)
        due.update(dict.fromkeys(names, now))


def _waiting(engine: Engine) -> set[int]:
    """The stream tables over a table that is being copied again, however far below it is."""
    known = {relation.id for relation in relations.every(engine.catalog)}
    tables = stream_tables.every(engine.catalog)
    waiting = {table.relation_id for table in tables if not known.issuperset(table.inputs)}
    while more := {t.relation_id for t in tables if waiting.intersection(t.inputs)} - waiting:
        waiting |= more
    return waiting


def _is_due(name: str, schedule: str | None, due: dict[str, float]) -> bool:
    when = parse(schedule)
    return isinstance(when, Schedule) and (name not in due or time.monotonic() - due[name] >= when.seconds)
