"""The shapes in which a source's tables are captured: each row belongs to a version, recorded with the rows themselves.

A new version holds from the first commit with rows of it. Older rows are read in it by `Translation`; a shape that
cannot hold them is `SchemaChanged`, and so is one of a table that is still being copied, or that has another name now.
Where changes are ignored, new rows are brought into the columns that are known instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.capture.discover import SourceTable
from penstock.capture.relations import schema_changed
from penstock.capture.surroundings import digest
from penstock.catalog import relations, source_events
from penstock.catalog.relations import Relation, Storage, Version
from penstock.catalog.source_events import SourceEvent
from penstock.catalog.store import Commit
from penstock.lsn import Lsn
from penstock.relation.schema import Schema
from penstock.relation.translation import translation


@dataclass(frozen=True)
class _New:
    table: str
    version: Version
    storage: Storage


class Shapes:
    """The newest version of every table in the stream, and those that are not recorded yet."""

    def __init__(
        self, captured: Iterable[Relation] = (), copied: Mapping[str, Schema] | None = None, *, ignoring: bool = False
    ) -> None:
        self._ignoring = ignoring
        self._said: dict[str, Schema] = {}
        self._versions = {one.table: (one.version, one.schema) for one in captured}
        self._copied = dict(copied or {})
        self._new: list[_New] = []
        self._ignored: list[SourceEvent] = []

    def take(self, table: SourceTable, rows: pa.Table) -> tuple[int, pa.Table]:
        """Rows that came in this shape, and the version they belong to."""
        lsn = Lsn(rows["_lsn"][0].as_py())
        kept = self._kept(table, lsn) if self._ignoring else table
        if kept is not table:
            rows = translation(table.schema, kept.schema).raw(rows)
        return self._version(kept, lsn), rows

    def unlike(self, columns: Mapping[str, str]) -> list[str]:
        """Those of the tables whose columns have another digest here."""
        known = {name: schema for name, (_, schema) in self._versions.items()}
        return [name for name, seen in columns.items() if name in known and digest(known[name]) != seen]

    def adopt(self, table: SourceTable, lsn: Lsn) -> None:
        """A shape without rows of it yet, which the table has at `lsn`."""
        self._version(table, lsn)

    def _kept(self, table: SourceTable, lsn: Lsn) -> SourceTable:
        """The table with the columns that are known, whatever it has now."""
        if table.name not in self._versions:
            return table
        schema = ignoring(self._versions[table.name][1], table.schema)
        if _alike(schema, table.schema):
            return table
        if self._said.get(table.name) != table.schema:
            self._said[table.name] = table.schema
            detail = "; ".join(change.detail for change in table.changes) or "its columns changed"
            self._ignored.append(SourceEvent(table.name, "ignored", detail, lsn))
        return replace(table, schema=schema)

    def _version(self, table: SourceTable, lsn: Lsn) -> int:
        for change in table.changes:
            if change.kind == "table_renamed":
                raise schema_changed(change.table, change.detail)
        if table.name in self._copied:
            if not _alike(self._copied[table.name], table.schema):
                raise schema_changed(table.name, "it changed while it was copied")
            return 1
        number, schema = self._versions[table.name]
        if _alike(schema, table.schema):
            return number
        if lost := translation(schema, table.schema).lost:
            raise schema_changed(table.name, lost)
        details = tuple(change.detail for change in table.changes)
        following = Version(number + 1, lsn, table.schema, details)
        self._new.append(_New(table.name, following, Storage(table.filenode, table.attributes, table.oid)))
        self._versions[table.name] = number + 1, table.schema
        return number + 1

    def record(self, commit: Commit, source_id: int, known: Mapping[str, int]) -> None:
        """Write the new versions down, in the commit that has their first rows."""
        for one in self._new:
            relations.add_version(commit, known[one.table], one.version)
            relations.remember_storage(commit, known[one.table], one.storage)
            detail = "; ".join(one.version.changes) or "its columns changed"
            lsn = Lsn(one.version.from_position)
            source_events.record(commit, source_id, SourceEvent(one.table, "followed", detail, lsn))
        for event in self._ignored:
            source_events.record(commit, source_id, event)

    def recorded(self, completed: Iterable[str]) -> None:
        """The commit is durable, and tables whose copy it completed are relations in their first version."""
        self._new.clear()
        self._ignored.clear()
        for name in completed:
            self._versions[name] = 1, self._copied.pop(name)


def ignoring(known: Schema, now: Schema) -> Schema:
    """The known columns over a table that has others now: each by its number, one that was dropped as NULL.

    A dropped column gets a number that no column of the source has: what it had in older rows is not to be seen beside
    rows that do not have it.
    """
    numbered = {column.attnum: column for column in now.columns}
    columns = []
    for column in known.columns:
        found = numbered.get(column.attnum)
        gone = replace(column, attnum=-abs(column.attnum), nullable=True, missing=None)
        columns.append(replace(found, name=column.name) if found is not None else gone)
    names = {column.attnum: column.name for column in known.columns}
    key = tuple(names.get(now.column(name).attnum, name) for name in now.key)
    return Schema(tuple(columns), key, now.identity)


def _alike(one: Schema, other: Schema) -> bool:
    """The same columns held alike, known by the same key; foreign keys are no part of a row's shape."""
    return one is other or _signature(one) == _signature(other)


def _signature(schema: Schema) -> tuple[object, ...]:
    columns = [(c.attnum, c.name, c.pg.oid, c.pg.typmod, c.spark, c.nullable) for c in schema.columns]
    return columns, schema.key, schema.identity
