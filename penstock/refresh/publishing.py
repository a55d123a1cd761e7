"""Publishing relations of a home: one by one at a frontier, all of them together, and the manifest of what is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from penstock.catalog import bases, publishing, relations, stream_tables
from penstock.catalog.publishing import PublishLine
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.cut import Frontier
from penstock.errors import NotRetained, PublishError
from penstock.lake import manifest
from penstock.lake.publish import Published, publish
from penstock.lake.reader import Reader
from penstock.refresh.positions import readable
from penstock.refresh.schedule import is_often

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

# A stream table that is refreshed at least this often is published together with the tables it reads.
_OFTEN = 60


def publish_relation(
    engine: Engine, name: str, at: Frontier | None = None, *, ending: Callable[[], bool] = lambda: False
) -> Published:
    """Bring a relation's Delta table to a frontier (default: its newest), and what a view's operators remember with it.

    A Delta table is never taken back: one that is past `at` stays, and one that is not there yet starts at its newest.
    `ending`: whether Spark's jobs are being cancelled. A publish that ends so is no failure; the next one does it.
    """
    started = time.monotonic()
    try:
        relation, position, frontier = engine.position(name, at)
    except NotRetained:
        if at is None:
            raise
        relation, position, frontier = engine.position(name)
    # Reading for a publish shares nothing with other threads.
    reader = Reader(engine.home, engine.catalog, lambda: engine.spark)
    try:
        with engine.catalog.lease(f"publish {relation.name}") as lease:
            done = publish(reader, lease, relation, position, frontier, compat=engine.settings.compat)
            for state in relations.states_of(engine.catalog, relation):
                publish(reader, lease, state, position, frontier, compat=engine.settings.compat)
    except PySparkException as error:
        if ending():
            raise _from_spark(relation, error) from error
        raise _failed(engine.catalog, relation, _from_spark(relation, error), started) from error
    except PublishError as error:
        raise _failed(engine.catalog, relation, error, started) from None
    if done.how != "unchanged":
        line = PublishLine(done.name, done.how, done.reason, done.rows, done.version, done.seconds, frontier)
        publishing.record(engine.catalog, relation.id, line)
    return done


def publish_together(engine: Engine, names: Sequence[str] = ()) -> list[Published]:
    """Bring relations (default: all that can be read) to one frontier, and say so in the manifest."""
    filled = {table.relation_id for table in stream_tables.every(engine.catalog) if table.frontier is not None}
    known = [one for one in relations.every(engine.catalog) if one.source is not None or one.id in filled]
    chosen = [relations.choose(known, name).name for name in names] or [one.name for one in known]
    frontier = target(engine.catalog)
    done = [publish_relation(engine, name, frontier) for name in chosen]
    write_manifest(engine, frontier)
    return done


def target(catalog: Catalog) -> Frontier:
    """The newest frontier at which tables can be published together with the stream tables that are refreshed often."""
    newest = readable(catalog)
    reached = [
        table.frontier
        for table in stream_tables.every(catalog)
        if table.frontier is not None and table.status == "ACTIVE" and is_often(table.schedule, _OFTEN)
    ]
    return Frontier({**newest, **Frontier.meet(reached)})


def write_manifest(engine: Engine, frontier: Frontier) -> None:
    """Say which versions belong to the frontier, and which Delta tables are elsewhere."""
    together: list[manifest.Entry] = []
    apart: list[manifest.Entry] = []
    for one in bases.at(engine.catalog, frontier):
        entry = manifest.Entry(one.name, one.folder, one.base.delta_version, one.base.rows, one.frontier)
        (together if one.same else apart).append(entry)
    manifest.write(engine.home, frontier, together, apart)


def rewrite_manifest(engine: Engine) -> None:
    """The same frontier with the versions of now: after work that changes no rows."""
    frontier = manifest.frontier(engine.home)
    if frontier is not None:
        write_manifest(engine, frontier)


def _from_spark(relation: Relation, error: PySparkException) -> PublishError:
    message = str(error).strip().split("\n\nJVM stacktrace")[0]
    return PublishError(
        f"{relation.name} could not be published: {message}",
        hint="The Delta table stays at its last version. Publish again when the cause is gone.",
    )


def _failed(catalog: Catalog, relation: Relation, error: PublishError, started: float) -> PublishError:
    seconds = time.monotonic() - started
    line = PublishLine(relation.name, "failed", "", 0, None, seconds, None, error.message)
    publishing.record(catalog, relation.id, line)
    return error
