"""A table that is copied again keeps its shape while stream tables read it: they were planned over that shape.

Looked at when the copy is asked for, and again whenever it begins: after a crash that may be much later.
"""

from __future__ import annotations

from penstock.capture.discover import SourceTable
from penstock.capture.relations import differs
from penstock.catalog import relations, stream_tables
from penstock.catalog.store import Catalog
from penstock.errors import ConfigError
from penstock.relation.schema import Schema


def check_readers(catalog: Catalog, relation_id: int, found: SourceTable) -> None:
    """Refuse a new shape of a relation that stream tables read."""
    readers = stream_tables.dependants(catalog, relation_id)
    if not readers:
        return
    before = relations.schema_of(catalog, relation_id)
    difference = differs(before, found.schema) or _held_otherwise(before, found.schema)
    if difference:
        raise ConfigError(
            f"{found.name} is not as it was captured ({difference}), and stream tables read it: {', '.join(readers)}",
            hint="Drop them, copy the table again, and create them over its new shape.",
        )


def _held_otherwise(before: Schema, after: Schema) -> str | None:
    pairs = zip(before.columns, after.columns, strict=True)
    changed = [f"{new.name} is held as {new.spark}, was {old.spark}" for old, new in pairs if old.spark != new.spark]
    return ", ".join(changed) or None
