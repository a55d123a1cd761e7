"""The shapes the WAL announces, each from its own place in the stream on.

With `follow`, a shape that older rows can be brought into goes on as the table's next version; what would leave older
rows unknown is `SchemaChanged`. With `stop`, every difference is. Nothing is guessed. A shape announced inside a
transaction that is still open holds for its rows alone until it commits. DDL that a message tells of, and that changed
or took away rows without writing them, is `SchemaChanged` too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.capture.config import SchemaChanges
from penstock.capture.ddl_trigger import Ddl, parse_ddl
from penstock.capture.discover import SourceTable, in_key
from penstock.capture.evolution import CatalogTable, Evolved, Known, SchemaChange, evolve
from penstock.capture.fields import Fields, ValueRefused
from penstock.capture.messages import LogicalMessage, Relation, RelationColumn
from penstock.capture.text_columns import from_text
from penstock.errors import SchemaChanged
from penstock.relation.schema import Column, ReplicaIdentity, Schema, decoded, encoded
from penstock.relation.types import PgType


class Look(Protocol):
    """The source's catalog as it is now."""

    def table(self, oid: int) -> CatalogTable | None: ...

    def types(self, wanted: Sequence[tuple[int, int]]) -> list[tuple[PgType, str] | None]: ...


class Relations:
    """The tables rows may belong to, by OID; tables of the publication that were not asked for are passed over.

    `remembered` are the tables whose shape the caller vouches for; of the others the first announcement tells it.
    """

    def __init__(
        self,
        tables: Mapping[str, SourceTable],
        look: Look | None = None,
        policy: SchemaChanges = "stop",
        remembered: bool = True,
    ) -> None:
        self._by_name = dict(tables)
        self._by_oid = {table.oid: table for table in tables.values()}
        self._open: dict[int, dict[int, SourceTable]] = {}
        self._refused: dict[int, SchemaChanged] = {}  # by open transactions, should they commit
        self._passed: dict[int, list[SourceTable]] = {}  # earlier shapes
        self._known = {table.oid: Known(table.filenode, table.attributes) for table in tables.values()}
        self._announced: set[int] = set()
        self._look = look
        self._policy = policy
        self._remembered = remembered

    @property
    def announced_any(self) -> bool:
        return bool(self._announced)

    def announce(self, relation: Relation, top: int = 0) -> None:
        """A shape for the rows that follow; with `top`, for those of that open transaction until it ends."""
        table = self.table(relation.oid, top) or self._by_name.get(relation.name)
        if table is not None:
            self._keep(self._next(table, relation), relation.oid, top)
        self._announced.add(relation.oid)

    def known(self, oid: int) -> bool:
        """Whether the server announced it, as it must before its first row."""
        return oid in self._announced

    def table(self, oid: int, top: int = 0) -> SourceTable | None:
        return self._open.get(top, {}).get(oid) or self._by_oid.get(oid)

    def commit(self, top: int) -> None:
        """What the open transaction announced holds for all from now on."""
        if top in self._refused:
            raise self._refused[top]
        for oid, table in self._open.pop(top, {}).items():
            self._keep(table, oid, 0)

    def abort(self, top: int) -> None:
        """What the open transaction announced never was."""
        self._refused.pop(top, None)
        self._open.pop(top, None)

    def restart(self) -> None:
        """Another reader goes on a little before here: what it announces first may be a shape that was passed."""
        self._open.clear()
        self._refused.clear()
        self._announced.clear()

    def message(self, message: LogicalMessage, top: int = 0) -> None:
        """DDL on a captured table, if it is that; of a new shape the announcement before its next row tells more."""
        ddl = parse_ddl(message)
        lost = ddl.lost if ddl is not None else None
        if ddl is None or lost is None:
            return
        for table in self._captured(ddl, top):
            refused = _lost(table.name, lost, gone=ddl.event == "sql_drop")
            if not top:
                raise refused
            self._refused.setdefault(top, refused)

    def _captured(self, ddl: Ddl, top: int) -> list[SourceTable]:
        found = [self.table(oid, top) for oid in sorted(ddl.tables)]
        return [table for table in found if table is not None]

    def _keep(self, table: SourceTable, oid: int, top: int) -> None:
        if top:
            self._open.setdefault(top, {})[oid] = table
        else:
            before = self._by_oid.get(oid)
            if before is not None and before is not table:
                self._passed.setdefault(oid, []).append(before)
            self._by_oid[oid] = table

    def _next(self, table: SourceTable, relation: Relation) -> SourceTable:
        """The table as announced: the same object if nothing is different."""
        difference = differs_from_wal(table, relation)
        if self._policy == "stop" or self._look is None:
            if difference:
                raise schema_changed(table.name, difference)
            return table
        first = relation.oid not in self._announced
        passed = [one for one in self._passed.get(relation.oid, ()) if first and not differs_from_wal(one, relation)]
        if difference and passed:
            return passed[-1]
        if not difference:
            return self._looked_at(table, relation) if not first else table
        adopted = first and not self._remembered
        catalog = self._look_at(table)
        evolved = evolve(table.name, table.oid, table.schema, self._known[table.oid], relation, catalog)
        if not evolved.lossless and (not adopted or relation.oid != table.oid):
            raise schema_changed(table.name, "; ".join(change.detail for change in evolved.changes))
        self._known[table.oid] = _known(catalog, relation, self._known[table.oid])
        known = self._known[table.oid]
        return replace(
            self._shaped(table, relation, evolved),
            version=table.version + (not adopted),
            changes=() if adopted else evolved.changes,
            filenode=known.filenode,
            attributes=known.attributes,
        )

    def _look_at(self, table: SourceTable) -> CatalogTable | None:
        """What the catalog says of the columns that the WAL may have."""
        assert self._look is not None
        found = self._look.table(table.oid)
        return found.listed({c.attnum for c in table.schema.columns}) if found and table.listed else found

    def _looked_at(self, table: SourceTable, relation: Relation) -> SourceTable:
        """Announced again with the same shape: perhaps rewritten, or a column may be NULL now, or is another one."""
        catalog = self._look_at(table)
        if catalog is None or not catalog.shows(relation):
            return table
        now = {column.name: column for column in catalog.live}
        replaced = [c.name for c in table.schema.columns if c.attnum and now[c.name].attnum != c.attnum]
        if replaced:
            raise schema_changed(table.name, f"column {', '.join(replaced)} was dropped and made again")
        self._known[table.oid] = _known(
            catalog, relation, self._known[table.oid]
        )  # vacuumed or truncated meanwhile, perhaps
        loosened = tuple(c.name for c in table.schema.columns if now[c.name].nullable and not c.nullable)
        if not loosened:
            return table
        columns = tuple(replace(c, nullable=c.nullable or c.name in loosened) for c in table.schema.columns)
        change = SchemaChange(table.name, "column_loosened", loosened, may_be_null(*loosened), lossless=True)
        return replace(
            table,
            schema=replace(table.schema, columns=columns),
            version=table.version + 1,
            changes=(change,),
        )

    def _shaped(self, table: SourceTable, relation: Relation, evolved: Evolved) -> SourceTable:
        types = self._types(table, relation, evolved)
        key = _key(table.schema, relation, evolved)
        columns = tuple(
            in_key(self._column(table, column, evolved, pg), key)
            for column, (pg, _) in zip(relation.columns, types, strict=True)
        )
        schema = Schema(columns, key, ReplicaIdentity(relation.identity))
        if schema.names == table.schema.names:
            schema = replace(schema, foreign_keys=table.schema.foreign_keys)
        return replace(
            table,
            schema_name=relation.schema,
            table_name=relation.table,
            schema=schema,
            sends=tuple(send for _, send in types),
        )

    def _types(self, table: SourceTable, relation: Relation, evolved: Evolved) -> list[tuple[PgType, str]]:
        """Those of columns that stayed are known; the others' may be gone from the catalog already."""
        assert self._look is not None
        known = {column.name: (column.pg, send) for column, send in zip(table.schema.columns, table.sends, strict=True)}
        asked = self._look.types([(column.type_oid, column.typmod) for column in relation.columns])
        found = []
        for column, answer in zip(relation.columns, asked, strict=True):
            before = known.get(evolved.origins.get(column.name) or "")
            same = before is not None and (before[0].oid, before[0].typmod) == (column.type_oid, column.typmod)
            typed = before if same else answer
            if typed is None:
                raise schema_changed(table.name, f"column {column.name} has a type that does not exist any more")
            found.append(typed)
        return found

    def _column(self, table: SourceTable, column: RelationColumn, evolved: Evolved, pg: PgType) -> Column:
        """A new column may be NULL: that it is not, the catalog may say too early."""
        origin = evolved.origins.get(column.name)
        before = table.schema.column(origin) if origin else None
        number = evolved.attnums.get(column.name, 0)
        if before is not None and before.pg == pg:
            return replace(before, name=column.name, attnum=number)
        made = Column.of(column.name, pg, attnum=number, nullable=before.nullable if before else True)
        if before is not None:
            return made if before.missing is None else replace(made, missing=_recast(table.name, made, before.missing))
        default = next((one.default for one in evolved.changes if one.columns == (column.name,)), None)
        return made if default is None else replace(made, missing=_held(table.name, made, default))


def _held(table: str, column: Column, text: str) -> str:
    """The value that older rows have in an added column, from PostgreSQL's text of it."""
    data = np.array(list(text.encode()), np.uint8)
    fields = Fields(data, np.zeros(1, np.int64), np.full(1, len(data), np.int64))
    try:
        return encoded(from_text(fields, column.arrow))
    except ValueRefused as refused:
        detail = f"column {column.name} was added with {refused.value[:200]}, which {column.spark} cannot hold"
        raise schema_changed(table, detail) from None


def _recast(table: str, column: Column, missing: str) -> str:
    """The value of older rows in the column's new type."""
    try:
        return encoded(_in_type(decoded(missing), column.arrow))
    except pa.ArrowException:
        raise schema_changed(table, f"older rows have a value in {column.name} that its new type cannot hold") from None


def _in_type(value: pa.Scalar, arrow: pa.DataType) -> pa.Array:
    """A cast between decimals does not see that a value has too many digits for its new scale."""
    both = pa.types.is_decimal(value.type) and pa.types.is_decimal(arrow)
    return pa.array([value.as_py()], arrow) if both else pa.array([value]).cast(arrow)


def _known(catalog: CatalogTable | None, relation: Relation, before: Known) -> Known:
    """What the catalog says of the announced shape; if it has more columns by now, only that nothing was rewritten."""
    if catalog is None or not catalog.shows(relation):
        return Known()
    if len(catalog.live) == len(relation.columns):
        return Known(catalog.filenode, catalog.attributes)
    if catalog.filenode != before.filenode:
        return Known()
    announced = {column.name for column in relation.columns}
    last = max(column.attnum for column in catalog.live if column.name in announced)
    return Known(before.filenode, max(before.attributes, last))


def _key(schema: Schema, relation: Relation, evolved: Evolved) -> tuple[str, ...]:
    """With FULL every column is marked: the known key goes on while all of its columns are there."""
    names = {origin: name for name, origin in evolved.origins.items() if origin}
    before = tuple(names[name] for name in schema.key if name in names)
    keyed = tuple(column.name for column in relation.columns if column.is_key)
    if relation.identity == ReplicaIdentity.FULL.value:
        return before if len(before) == len(schema.key) else ()
    return before if set(before) == set(keyed) else keyed


def schema_changed(name: str, difference: str) -> SchemaChanged:
    return SchemaChanged(
        f"{name} is not as it was captured: {difference}",
        hint=f"Copy it again with its new shape: ps.resync(…, {name!r}).",
        table=name,
    )


def _lost(name: str, what: str, *, gone: bool) -> SchemaChanged:
    again = f"Copy it again: ps.resync(…, {name!r})"
    return SchemaChanged(
        f"rows of {name} captured so far are not its rows any more: {what}",
        hint=f"{again}, if it was made again; if it was not, leave it out of the source." if gone else f"{again}.",
        table=name,
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
