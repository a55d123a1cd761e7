"""The shape the WAL announces must be the shape that was captured: anything else is `SchemaChanged`, never a guess."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.capture.discover import SourceTable
from penstock.capture.messages import LogicalMessage, Relation
from penstock.errors import SchemaChanged
from penstock.relation.schema import ReplicaIdentity, Schema


class Relations:
    """The tables rows may belong to, by OID; tables of the publication that were not asked for are passed over."""

    def __init__(self, tables: Mapping[str, SourceTable]) -> None:
        self._by_name = dict(tables)
        self._by_oid = {table.oid: table for table in tables.values()}
        self._announced: set[int] = set()

    @property
    def announced_any(self) -> bool:
        return bool(self._announced)

    def announce(self, relation: Relation, top: int = 0) -> None:
        """A shape for the rows that follow; with `top`, for those of that open transaction until it ends."""
        table = self._by_oid.get(relation.oid) or self._by_name.get(relation.name)
        if table is not None:
            difference = differs_from_wal(table, relation)
            if difference:
                raise schema_changed(table.name, difference)
        self._announced.add(relation.oid)

    def known(self, oid: int) -> bool:
        """Whether the server announced it, as it must before its first row."""
        return oid in self._announced

    def table(self, oid: int, top: int = 0) -> SourceTable | None:
        return self._by_oid.get(oid)

    def commit(self, top: int) -> None:
        """What the open transaction announced holds for all from now on."""

    def abort(self, top: int) -> None:
        """What the open transaction announced never was."""

    def message(self, message: LogicalMessage) -> None:
        """A logical message; none means anything yet."""


def schema_changed(name: str, difference: str) -> SchemaChanged:
    return SchemaChanged(
        f"{name} is not as it was captured: {difference}",
        hint=f"Copy it again with its new shape: ps.resync(…, {name!r}).",
    )


def differs_from_wal(table: SourceTable, relation: Relation) -> str | None:
    """The first difference between a captured table and a Relation message."""
    if relation.oid != table.oid:
        return f"the table was dropped and made again (OID {relation.oid}, was {table.oid})"
    if relation.name != table.name:
        return f"it is now called {relation.name}"
    schema = table.schema
    found = [(column.name, column.type_oid, column.typmod) for column in relation.columns]
    expected = [(column.name, column.pg.oid, column.pg.typmod) for column in schema.columns]
    if found != expected:
        return _columns_differ(expected, found)
    if relation.identity != schema.identity.value:
        return f"its replica identity is {relation.identity!r}, was {schema.identity.value!r}"
    keyed = {column.name for column in relation.columns if column.is_key}
    if schema.identity is not ReplicaIdentity.FULL and keyed != set(schema.key):
        return f"its key is ({', '.join(sorted(keyed))}), was ({', '.join(schema.key)})"
    return None


def differs(expected: Schema, found: Schema) -> str | None:
    """The first difference between two shapes that changes what rows mean.

    Foreign keys do not, nor a column that can no longer be NULL; one that now can be is another column to a view.
    """
    before = [(column.name, column.pg.oid, column.pg.typmod) for column in expected.columns]
    after = [(column.name, column.pg.oid, column.pg.typmod) for column in found.columns]
    if before != after:
        return _columns_differ(before, after)
    numbers = [(column.name, column.attnum) for column in found.columns]
    for (name, number), column in zip(numbers, expected.columns, strict=True):
        if column.attnum and column.attnum != number:
            return f"column {name} was dropped and made again"
    if expected.identity != found.identity:
        return f"its replica identity is {found.identity.value!r}, was {expected.identity.value!r}"
    if expected.key != found.key:
        return f"its key is ({', '.join(found.key)}), was ({', '.join(expected.key)})"
    pairs = zip(expected.columns, found.columns, strict=True)
    loosened = [new.name for old, new in pairs if new.nullable and not old.nullable]
    return may_be_null(*loosened) if loosened else None


def may_be_null(*names: str) -> str:
    return f"column {', '.join(names)} may now be NULL"


def _columns_differ(expected: list[tuple[str, int, int]], found: list[tuple[str, int, int]]) -> str:
    before, after = [name for name, *_ in expected], [name for name, *_ in found]
    added = [name for name in after if name not in before]
    dropped = [name for name in before if name not in after]
    if added and dropped and len(after) == len(before):
        return f"column {', '.join(dropped)} was renamed or replaced by {', '.join(added)}"
    if added:
        return f"column {', '.join(added)} was added"
    if dropped:
        return f"column {', '.join(dropped)} was dropped"
    if before != after:
        return f"its columns are ({', '.join(after)}), were ({', '.join(before)})"
    changed = [name for (name, *old), (_, *new) in zip(expected, found, strict=True) if old != new]
    return f"the type of {', '.join(changed)} changed"
