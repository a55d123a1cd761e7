"""OPTIMIZE and VACUUM of Delta tables, when they are worth it and never against a pin."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from penstock.catalog import bases, pins, publishing, relations
from penstock.catalog.publishing import PublishLine
from penstock.catalog.relations import Relation
from penstock.errors import ConfigError, NotRetained, PublishError
from penstock.refresh.schedule import Schedule

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

log = logging.getLogger("penstock.run")

_BETWEEN_VACUUMS = timedelta(days=1)


class Upkeeper:
    """Looks after each relation that was just published."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def after(self, name: str) -> None:
        from pyspark.errors import PySparkException

        relation = relations.find(self._engine.catalog, name)
        for one in [relation, *relations.states_of(self._engine.catalog, relation)]:
            try:
                optimize(self._engine, one)
                if self._vacuum_due(one):
                    vacuum(self._engine, one)
            except PySparkException as error:
                message = str(error).strip().split("\n\nJVM stacktrace")[0]
                raise PublishError(
                    f"the files of the Delta table of {one.name} could not be put in order: {message}",
                    hint="Its rows are published. It is tried again after a later publish.",
                ) from error

    def _vacuum_due(self, relation: Relation) -> bool:
        last = publishing.last(self._engine.catalog, relation.id, "vacuumed")
        began = last or bases.oldest(self._engine.catalog, relation.id)
        return began is not None and datetime.now(UTC) - began >= _BETWEEN_VACUUMS


def optimize(engine: Engine, relation: Relation, *, force: bool = False) -> str | None:
    """Rewrite small files and files with many deleted rows, if there are many; what was done."""
    from penstock.lake import optimize as delta_files
    from penstock.lake.reader import Reader
    from penstock.refresh.publishing import rewrite_manifest

    reader = Reader(engine.home, engine.catalog, lambda: engine.spark)
    started = time.monotonic()
    with engine.catalog.lease(f"publish {relation.name.partition('#')[0]}") as lease:
        done = delta_files.optimize(reader, lease, relation, force=force)
    if done is not None:
        rewrite_manifest(engine)
        _record(engine, relation, "optimized", done.reason, done.version, started)
        log.info("%s: optimized, %s", relation.name, done.reason)
    return None if done is None else done.reason


def vacuum(engine: Engine, relation: Relation) -> timedelta:
    """Delete files of versions that nothing needs any more; how far back every version is still whole."""
    from penstock.lake import optimize as delta_files
    from penstock.lake.reader import Reader

    reader = Reader(engine.home, engine.catalog, lambda: engine.spark)
    started = time.monotonic()
    with engine.catalog.lease(f"publish {relation.name.partition('#')[0]}") as lease:
        kept = keep_for(engine, relation)
        delta_files.vacuum(reader, lease, relation, kept)
    _record(engine, relation, "vacuumed", f"versions of the last {kept} stay", None, started)
    return kept


def keep_for(engine: Engine, relation: Relation) -> timedelta:
    """As long as is set, longer if a pin or the manifest needs a version from before."""
    from penstock.lake import manifest

    keep = timedelta(seconds=Schedule.parse(engine.settings.keep_versions).seconds)
    needed = [pin_version(engine, relation, pin) for pin in pins.every(engine.catalog)]
    needed.append(manifest.versions(engine.home).get(relation.name))
    now = datetime.now(UTC)
    for version in needed:
        if version is not None and (made := bases.made_at(engine.catalog, relation.id, version)) is not None:
            keep = max(keep, now - made + timedelta(hours=1))
    return keep


def pin_version(engine: Engine, relation: Relation, pin: pins.Pin) -> int | None:
    """The Delta version that the pinned frontier is read from: the newest at or before it."""
    try:
        _, position, _ = engine.position(relation.name.partition("#")[0], pin.frontier)
    except (NotRetained, ConfigError):  # it says nothing of this relation
        return None
    return bases.version_at(engine.catalog, relation.id, position)


def _record(engine: Engine, relation: Relation, how: str, reason: str, version: int | None, started: float) -> None:
    line = PublishLine(relation.name, how, reason, 0, version, time.monotonic() - started, None)
    publishing.record(engine.catalog, relation.id, line)
