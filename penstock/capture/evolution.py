"""What became of a table whose shape in the WAL is not the known one, as values: nothing is asked of a server here.

A Relation message has names and types in the order of attnum, and nothing else: a rename, and a drop with an addition,
look alike in it. The catalog's attnums tell them apart, but it may be ahead of the WAL, so what it says counts only
while it shows the announced columns in their order and none that came and went since. The rest is never lossless.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.capture.messages import Relation
from penstock.lsn import Lsn
from penstock.relation.schema import ReplicaIdentity, Schema

Kind = Literal[
    "column_added",
    "column_dropped",
    "column_renamed",
    "column_replaced",
    "column_loosened",
    "type_changed",
    "table_renamed",
    "table_recreated",
    "key_changed",
    "identity_changed",
]


@dataclass(frozen=True)
class SchemaChange:
    """One change of a table. `lossless`: rows from before it can be brought into the new shape without asking again.

    `columns` are the names after the change (before it, for a dropped one). `rewrite`: stored values may have changed.
    """

    table: str
    kind: Kind
    columns: tuple[str, ...]
    detail: str
    lossless: bool
    rewrite: bool = False
    default: str | None = None  # what older rows have in an added column, as PostgreSQL's text; None is NULL


@dataclass(frozen=True)
class SchemaVersion:
    """A shape of a table that was delivered: `lsn` is the first commit with rows of it."""

    table: str
    version: int
    lsn: Lsn
    changes: tuple[SchemaChange, ...]


@dataclass(frozen=True)
class CatalogColumn:
    """A line of pg_attribute; `missing` is what rows have that are older than the column."""

    name: str
    attnum: int
    type_oid: int
    typmod: int
    dropped: bool = False
    nullable: bool = True
    missing: str | None = None
    sent: bool = True  # False of one that the WAL does not have: generated, or not in the publication's list


@dataclass(frozen=True)
class CatalogTable:
    """What the server's catalog says of a table now."""

    name: str
    filenode: int
    identity: str
    columns: tuple[CatalogColumn, ...] = ()

    @property
    def attributes(self) -> int:
        """Columns it ever had."""
        return max((column.attnum for column in self.columns), default=0)

    @property
    def live(self) -> tuple[CatalogColumn, ...]:
        return tuple(column for column in self.columns if not column.dropped and column.sent)

    def shows(self, relation: Relation) -> bool:
        """Whether this is still the shape the WAL announces, or one with more columns behind it.

        One in between was there already, under another name: a new column may have taken its old one since.
        """
        found = [(c.name, c.type_oid, c.typmod) for c in self.live]
        announced = [(c.name, c.type_oid, c.typmod) for c in relation.columns]
        return self.name == relation.name and found[: len(announced)] == announced

    def listed(self, attnums: Collection[int]) -> CatalogTable:
        """As a publication shows it that lists these columns."""
        columns = tuple(replace(c, sent=c.sent and c.attnum in attnums) for c in self.columns)
        return replace(self, columns=columns)


@dataclass(frozen=True)
class Known:
    """What the catalog said while it had the known shape; 0 if it was not asked then."""

    filenode: int = 0
    attributes: int = 0


@dataclass(frozen=True)
class Evolved:
    """The changes, and for every announced column its attnum (0 if nobody knows) and the old column's name, if any."""

    changes: tuple[SchemaChange, ...]
    attnums: Mapping[str, int] = field(default_factory=dict)
    origins: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def lossless(self) -> bool:
        return all(change.lossless for change in self.changes)


def evolve(
    name: str, oid: int, schema: Schema, known: Known, relation: Relation, catalog: CatalogTable | None
) -> Evolved:
    """From the known shape to the announced one."""
    if relation.oid != oid:
        detail = f"the table was dropped and made again (OID {relation.oid}, was {oid})"
        return Evolved((SchemaChange(name, "table_recreated", (), detail, lossless=False, rewrite=True),))
    attributes = known.attributes or max((column.attnum for column in schema.columns), default=0)
    if catalog is not None and not (catalog.shows(relation) and _none_came_and_went(catalog, attributes)):
        catalog = None
    kept = catalog is not None and known.filenode != 0 and catalog.filenode == known.filenode
    origins, attnums = _by_attnum(schema, catalog) if catalog is not None else _by_name(schema, relation)
    changes = [] if relation.name == name else [_renamed_table(name, relation.name)]
    new = {column.name for column in catalog.live if column.attnum > attributes} if catalog is not None else set()
    changes += _column_changes(name, schema, relation, origins, catalog, kept, new)
    changes += _identity_changes(name, schema, relation, origins)
    return Evolved(tuple(changes), attnums, origins)


def _none_came_and_went(catalog: CatalogTable, attributes: int) -> bool:
    """Otherwise a column may have the name, not the place, of the one that was announced."""
    return not any(column.dropped and column.attnum > attributes for column in catalog.columns)


def _renamed_table(name: str, now: str) -> SchemaChange:
    return SchemaChange(name, "table_renamed", (), f"it is now called {now}", lossless=True)


def _by_attnum(schema: Schema, catalog: CatalogTable) -> tuple[dict[str, str | None], dict[str, int]]:
    """For every column the old column it is, or None for a new one; and its attnum."""
    before = {column.attnum: column.name for column in schema.columns}
    numbers = {column.name: column.attnum for column in catalog.live}
    return {name: before.get(number) for name, number in numbers.items()}, numbers


def _by_name(schema: Schema, relation: Relation) -> tuple[dict[str, str | None], dict[str, int]]:
    """A guess for the words of an error."""
    before = {column.name: column.attnum for column in schema.columns}
    names = [column.name for column in relation.columns]
    return {name: name if name in before else None for name in names}, {name: before.get(name, 0) for name in names}


def _column_changes(
    table: str,
    schema: Schema,
    relation: Relation,
    origins: Mapping[str, str | None],
    catalog: CatalogTable | None,
    kept: bool,
    new: set[str],
) -> list[SchemaChange]:
    """`new` are those made since. Another that is announced only now was generated: older rows have values in it."""
    changes = []
    announced = {column.name: (column.type_oid, column.typmod) for column in relation.columns}
    taken = {origins[name] for name in announced}
    gone = [name for name in schema.names if name not in taken]
    for name, typed in announced.items():
        origin = origins[name]
        if origin is None:
            certain = name in new and all(_type(schema, other) != typed for other in gone)
            changes.append(_added(table, schema, name, catalog, kept and certain))
            continue
        if origin != name:
            detail = f"column {origin} was renamed to {name}"
            changes.append(SchemaChange(table, "column_renamed", (name,), detail, lossless=True))
        if _type(schema, origin) != typed:
            detail = f"the type of {name} changed" + ("" if kept else ", and its values may have")
            changes.append(SchemaChange(table, "type_changed", (name,), detail, lossless=kept, rewrite=not kept))
    changes += [_gone(table, schema, name, catalog) for name in gone if name not in announced]
    if not changes and [name for name in schema.names if name in announced] != list(announced):
        detail = f"its columns are ({', '.join(announced)}), were ({', '.join(schema.names)})"
        changes.append(SchemaChange(table, "column_replaced", tuple(announced), detail, lossless=False))
    return changes


def _type(schema: Schema, name: str) -> tuple[int, int]:
    pg = schema.column(name).pg
    return pg.oid, pg.typmod


def _gone(table: str, schema: Schema, name: str, catalog: CatalogTable | None) -> SchemaChange:
    """No longer announced: dropped, unless the catalog still has it, which leaves a publication that lists columns."""
    there = catalog is not None and any(one.attnum == schema.column(name).attnum for one in catalog.live)
    detail = f"column {name} is not published any more" if there else f"column {name} was dropped"
    return SchemaChange(table, "column_dropped", (name,), detail, lossless=catalog is not None and not there)


def _added(table: str, schema: Schema, name: str, catalog: CatalogTable | None, known: bool) -> SchemaChange:
    """Lossless if it is known what older rows have: the catalog's missing value, or NULL; a rewrite stored others."""
    if name in schema.names:
        detail = f"column {name} was dropped and made again"
        return SchemaChange(table, "column_replaced", (name,), detail, lossless=False)
    found = next((one for one in (catalog.live if catalog else ()) if one.name == name), None)
    default = found.missing if known and found else None
    said = f" with {default} in older rows" if default is not None else ""
    detail = f"column {name} was added{said}" if known else f"column {name} was added, unknown with what in older rows"
    return SchemaChange(table, "column_added", (name,), detail, lossless=known, rewrite=not known, default=default)


def _identity_changes(
    table: str, schema: Schema, relation: Relation, origins: Mapping[str, str | None]
) -> list[SchemaChange]:
    changes = []
    if relation.identity != schema.identity.value:
        detail = f"its replica identity is {relation.identity!r}, was {schema.identity.value!r}"
        usable = relation.identity != ReplicaIdentity.NOTHING.value
        changes.append(SchemaChange(table, "identity_changed", (), detail, lossless=usable))
    whole = relation.identity == ReplicaIdentity.FULL.value  # every column is marked then
    keyed = tuple(column.name for column in relation.columns if column.is_key and not whole)
    lost = any(name not in origins.values() for name in schema.key)
    if lost or (not whole and {origins[name] for name in keyed} != set(schema.key)):
        detail = f"its key is ({', '.join(keyed)}), was ({', '.join(schema.key)})"
        changes.append(SchemaChange(table, "key_changed", keyed, detail, lossless=False))
    return changes
