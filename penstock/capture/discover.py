"""What the source's catalog says of the asked tables: names resolved, shapes read, nothing made.

`*` stands for all tables of a schema (views and foreign tables are not tables; partitions belong to their root). A name
asked for by itself must be a table, and every table must have an identity that its own UPDATE and DELETE can write.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.capture.config import Partitions, with_schema
from penstock.capture.connection import Connection, connect, translated
from penstock.capture.evolution import SchemaChange
from penstock.capture.foreign_keys import foreign_keys
from penstock.capture.generated_columns import check_left_out, sent, stored
from penstock.capture.layout import Layout
from penstock.capture.leaves import Leaves, read_leaves
from penstock.capture.partitions import VIA_ROOT, check_roots, leaves_of, of_schema
from penstock.capture.server_types import ServerTypes
from penstock.errors import ConfigError, NotFound, NotYet, PenstockError, SourceError, UnsafeTable
from penstock.relation.schema import Column, ReplicaIdentity, Schema
from penstock.zset import RAW_FIELDS

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
_NAME = re.compile(r'("(?:[^"]|"")+"|[^".]+)\.("(?:[^"]|"")+"|[^"]+)')
_PLAIN = re.compile("[a-z_][a-z0-9_]*")
_NAMED = 10  # tables of one refusal
_RESERVED = frozenset(field.name for field in RAW_FIELDS)

_RELATIONS = """
SELECT n.nspname, c.relname, c.oid::int8, c.relkind::text, c.relpersistence::text, c.relreplident::text,
       COALESCE(c.relfilenode::int8, 0),
       COALESCE((SELECT i.inhparent::int8 FROM pg_inherits i WHERE i.inhrelid = c.oid AND c.relispartition LIMIT 1), 0),
       c.relnatts::int8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 1, 2
"""
_COLUMNS = """
SELECT a.attrelid::int8, a.attname, a.atttypid::int8, a.atttypmod, format_type(a.atttypid, a.atttypmod),
       a.attnum,
       a.attnotnull AND NOT EXISTS (  -- PostgreSQL 18 sets attnotnull for a NOT VALID constraint too
           SELECT FROM pg_constraint n
           WHERE n.conrelid = a.attrelid AND n.contype = 'n' AND n.conkey = ARRAY[a.attnum] AND NOT n.convalidated
       ),
       {stored},
       EXISTS (  -- a column of PostgreSQL 12
           SELECT FROM pg_collation o
           WHERE o.oid = a.attcollation AND NOT COALESCE((to_jsonb(o) ->> 'collisdeterministic')::bool, true)
       ),
       {sent}
FROM pg_attribute a
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT i.indrelid::int8, i.indisprimary, i.indisreplident, i.indisvalid, i.indimmediate, a.attname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, position)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = ANY(%s) AND (i.indisprimary OR i.indisreplident)
  AND k.position <= COALESCE((to_jsonb(i) ->> 'indnkeyatts')::int, i.indnatts)  -- INCLUDE came with 11
ORDER BY i.indrelid, k.position
"""


@dataclass(frozen=True)
class SourceTable:
    """A table of the source: its shape, its identity on the server, and each column's send function (`ServerTypes`)."""

    schema_name: str
    table_name: str
    oid: int
    schema: Schema
    sends: tuple[str, ...]
    generated: bool = False  # has a stored generated column that the server sends
    unsent: tuple[str, ...] = ()  # generated columns that it does not: they are no part of `schema`
    attributes: int = 0  # columns it ever had
    filenode: int = 0  # changes when the table is rewritten or truncated
    partitioned: bool = False  # its rows are in its partitions
    row_filter: str | None = None  # the condition of its publication, in PostgreSQL's own words
    version: int = 1  # counts the shapes since the source was opened
    changes: tuple[SchemaChange, ...] = ()  # what became of the version before
    listed: bool = False  # its publication names columns, and `schema` has only those
    collated: frozenset[int] = frozenset()  # columns (attnum) whose collation has equal texts of other bytes
    leaves: Leaves = field(default_factory=dict)  # where the rows of a partitioned table are

    @property
    def name(self) -> str:
        return f"{self.schema_name}.{self.table_name}"

    @property
    def spelled(self) -> str:
        return spell(self.schema_name, self.table_name)

    @cached_property
    def has_exact_key(self) -> bool:
        """Whether equal keys are always the same bits: the server then knows of no two that are told apart here."""
        key = map(self.schema.column, self.schema.key)
        return all(column.identical_if_equal and column.attnum not in self.collated for column in key)

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.schema.columns, self.sends)


@dataclass(frozen=True)
class _Entry:
    schema: str
    table: str
    oid: int
    kind: str
    persistence: str
    identity: ReplicaIdentity
    filenode: int
    parent: int  # what it is a partition of
    attributes: int

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def spelled(self) -> str:
        return spell(self.schema, self.table)


def _entry(
    schema: str,
    table: str,
    oid: int,
    kind: str,
    persistence: str,
    identity: str,
    node: int,
    parent: int,
    attributes: int,
) -> _Entry:
    return _Entry(schema, table, oid, kind, persistence, ReplicaIdentity(identity), node, parent, attributes)


def inspect(dsn: str, tables: Sequence[str], *, schema_name: str = "public") -> dict[str, Schema]:
    """The shape of every asked table by name; `public.*` is expanded, an unknown name is refused."""
    with connect(dsn) as connection:
        found = discover(connection, [with_schema(name, schema_name) for name in tables])
    check_left_out(found.values(), "refuse")
    return {name: table.schema for name, table in found.items()}


def discover(connection: Connection, names: Sequence[str], partitions: Partitions = "root") -> dict[str, SourceTable]:
    """The asked tables by name, in the order of their names."""
    as_root = partitions == "root" and connection.info.server_version >= VIA_ROOT
    with translated():
        entries = [_entry(*row) for row in connection.execute(_RELATIONS)]
        chosen = _choose(entries, names, as_root)
        oids = [entry.oid for entry in chosen.values()]
        version = connection.info.server_version
        columns = _by_table(connection, _COLUMNS.format(stored=stored(version), sent=sent(version)), oids)
        keys = _by_table(connection, _KEYS, oids)
        types = ServerTypes(connection, {row[1] for rows in columns.values() for row in rows})
        parents = foreign_keys(connection, {entry.oid: name for name, entry in chosen.items()})
        leaves = read_leaves(connection, [entry.oid for entry in chosen.values() if entry.kind == "p"])
    tables: dict[str, SourceTable] = {}
    refused: list[PenstockError] = []
    for name, entry in sorted(chosen.items()):
        rows = [row for row in columns.get(entry.oid, []) if row[-1]]
        unsent = tuple(row[0] for row in columns.get(entry.oid, []) if not row[-1])
        try:
            _check_columns(name, rows)
            key = _key(entry, keys.get(entry.oid, []), unsent)
            _check_identity(entry, unsent, version)
        except PenstockError as refusal:
            refused.append(refusal)
            continue
        schema = Schema(
            columns=tuple(in_key(_column(types, *row), key) for row in rows),
            key=key,
            identity=entry.identity,
            foreign_keys=tuple(one for one in parents.get(name, ()) if not set(one.columns) & set(unsent)),
        )
        tables[name] = SourceTable(
            entry.schema,
            entry.table,
            entry.oid,
            schema,
            sends=tuple(types.send(column.pg) for column in schema.columns),
            generated=any(row[6] for row in rows),
            collated=frozenset(row[4] for row in rows if row[7]),
            unsent=unsent,
            attributes=entry.attributes,
            filenode=_storage(entries, entry),
            partitioned=entry.kind == "p",
            leaves=leaves.get(entry.oid, {}),
        )
    if refused:
        raise _together(refused)
    return tables


def _together(refused: list[PenstockError]) -> PenstockError:
    """One error for all of them, so that all can be put right at once; of many, the first tell what there is to do."""
    if len(refused) == 1:
        return refused[0]
    shown, more = refused[:_NAMED], len(refused) - _NAMED
    said = "; ".join([one.message for one in shown] + [f"and {more} more"] * (more > 0))
    kind = UnsafeTable if all(isinstance(one, UnsafeTable) for one in refused) else SourceError
    return kind(
        f"{len(refused)} tables cannot be captured: {said}",
        hint='Put each of them right, or leave it out, for example "!public.log_*". '
        + " ".join(str(one.hint) for one in shown),
    )


def _column(
    types: ServerTypes, name: str, oid: int, typmod: int, typed: str, number: int, strict: bool, *_: bool
) -> Column:
    return Column.of(name, types.type(oid, typmod, typed), attnum=number, nullable=not strict)


def in_key(column: Column, key: Sequence[str]) -> Column:
    """Rows are found by their key: a list or a struct in it takes its text form."""
    return column.with_form(pa.string()) if column.name in key and pa.types.is_nested(column.arrow) else column


def _storage(entries: list[_Entry], entry: _Entry) -> int:
    """A partitioned table's rows are in its leaves."""
    if entry.kind != "p":
        return entry.filenode
    return hash(tuple((leaf.oid, leaf.filenode) for leaf in leaves_of(entries, entry)))


def spell(*names: str) -> str:
    """
    >>> spell("public", "Orders")
    'public."Orders"'
    """
    return ".".join(n if _PLAIN.fullmatch(n) else '"{}"'.format(n.replace('"', '""')) for n in names)


def split_name(name: str) -> tuple[str, str]:
    """
    >>> split_name('sales.orders'), split_name('sales."A.b"')
    (('sales', 'orders'), ('sales', 'A.b'))
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ConfigError(f"{name!r} is not a table name", hint="Write schema.table, or schema.* for all of a schema.")
    schema, table = (part[1:-1].replace('""', '"') if part[0] == '"' else part for part in match.groups())
    return schema, table


class Patterns:
    """Which tables a list of names asks for: `sales.orders`, `sales.*`, `sales.log_*`, and `!sales.*_old` leaves out.

    >>> asked = Patterns(["public.*", "!public.log_*"])
    >>> asked.match("public.orders"), asked.match("public.log_1"), asked.match("sales.orders")
    (True, False, False)
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._in = [split_name(name) for name in names if not name.startswith("!") and "*" in name]
        self._out = [split_name(name[1:]) for name in names if name.startswith("!")]

    @staticmethod
    def listed(names: Sequence[str]) -> set[str]:
        """Those that are asked for by their own name: `schema.table`, as tables are called here.

        >>> Patterns.listed(['public.*', 'sales."Orders"', '!public.x'])
        {'sales.Orders'}
        """
        plain = [split_name(name) for name in names if not name.startswith("!")]
        return {f"{schema}.{table}" for schema, table in plain if "*" not in table}

    def match(self, name: str) -> bool:
        """Whether a pattern (not a name by itself) asks for it."""
        schema, _, table = name.partition(".")
        return _fits(schema, table, self._in) and not self.leaves_out(schema, table)

    def leaves_out(self, schema: str, table: str) -> bool:
        return _fits(schema, table, self._out)


def _fits(schema: str, table: str, patterns: list[tuple[str, str]]) -> bool:
    return any(schema == where and fnmatchcase(table, what) for where, what in patterns)


def _choose(entries: list[_Entry], names: Sequence[str], as_root: bool) -> dict[str, _Entry]:
    chosen: dict[str, _Entry] = {}
    left_out = Patterns(names)
    for name in (one for one in names if not one.startswith("!")):
        schema, table = split_name(name)
        if "*" in table:
            plain = [
                e
                for e in entries
                if e.kind in "rp" and e.persistence == "p" and _fits(e.schema, e.table, [(schema, table)])
            ]
            matches = [e for e in of_schema(plain, as_root=as_root) if not left_out.leaves_out(e.schema, e.table)]
        else:
            matches = [e for e in entries if (e.schema, e.table) == (schema, table)]
            if matches and matches[0].kind == "p" and not as_root:
                matches = leaves_of(entries, matches[0])
        if not matches:
            raise _unknown(name, entries)
        for entry in matches:
            _check_entry(entry)
            chosen[entry.name] = entry
    check_roots(entries, chosen)
    return chosen


def _unknown(name: str, entries: list[_Entry]) -> NotFound:
    tables = [entry.name for entry in entries]
    near = difflib.get_close_matches(name, tables, n=3, cutoff=0.5) or [n for n in tables if n.endswith(f".{name}")]
    what = "no table matches" if name.endswith(".*") else "no such table:"
    return NotFound(
        f"{what} {name}",
        hint=f"Did you mean {', '.join(near)}?" if near else "Names are schema.table, in the case they were made with.",
    )


def _check_entry(entry: _Entry) -> None:
    if entry.kind in _KINDS:
        raise NotYet(
            f"capturing {entry.name}, which is {_KINDS[entry.kind]},",
            hint="Name plain tables, such as those it reads.",
        )
    if "." in entry.schema or '"' in entry.name:
        raise NotYet(
            f"capturing {entry.spelled}, with a dot in its schema's name or a quote in its own,",
            hint="Rename it, or leave it out.",
        )
    if entry.persistence != "p":
        raise UnsafeTable(
            f"{entry.name} is not logged, so the WAL does not have its changes",
            hint=f"Run ALTER TABLE {entry.spelled} SET LOGGED, or leave it out.",
        )


def _check_columns(name: str, rows: list[tuple[Any, ...]]) -> None:
    for column in rows:
        if column[0] in _RESERVED:
            raise SourceError(
                f"{name} has a column {column[0]}, a name that change rows use themselves",
                hint=f"Rename the column, or leave {name} out.",
            )
    if not rows:
        raise NotYet(f"capturing {name}, which has no columns,", hint="Leave it out.")


def _check_identity(entry: _Entry, unsent: tuple[str, ...], version: int) -> None:
    """From 18 on a published table must have all of its identity published, and with FULL that is every column."""
    if unsent and entry.identity is ReplicaIdentity.FULL and version >= 180000:
        raise UnsafeTable(
            f"{entry.name} has REPLICA IDENTITY FULL and {unsent[0]}, a virtual generated column: once published, its "
            "UPDATE and DELETE would fail",
            hint=f"Run ALTER TABLE {entry.spelled} REPLICA IDENTITY DEFAULT, with a primary key, or leave it out.",
        )


def _key(entry: _Entry, rows: list[tuple[Any, ...]], unsent: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that name a row in the WAL: the identity's, or the primary key where whole rows are logged.

    An invalid or deferrable key is none: PostgreSQL does not log by it, and inside a transaction two rows may share it.
    """
    usable = [row for row in rows if row[2] and row[3]]
    primary = tuple(row[4] for row in usable if row[0])
    if entry.identity is ReplicaIdentity.FULL:
        return () if set(primary) & set(unsent) else primary
    if entry.identity is ReplicaIdentity.NOTHING:
        raise UnsafeTable(
            f"{entry.name} has REPLICA IDENTITY NOTHING: once published, its UPDATE and DELETE would fail",
            hint=f"Run ALTER TABLE {entry.spelled} REPLICA IDENTITY {'DEFAULT' if primary else 'FULL'}.",
        )
    key = primary if entry.identity is ReplicaIdentity.DEFAULT else tuple(row[4] for row in usable if row[1])
    if not key:
        raise _unidentified(entry, rows)
    if computed := sorted(set(key) & set(unsent)):
        raise UnsafeTable(
            f"{entry.name} has {', '.join(computed)} in its key, a generated column that the server does not send",
            hint=f"Run ALTER TABLE {entry.spelled} REPLICA IDENTITY FULL, or use a key of plain columns.",
        )
    return key


def _unidentified(entry: _Entry, rows: list[tuple[Any, ...]]) -> UnsafeTable:
    if entry.identity is ReplicaIdentity.INDEX:
        lack, remedy = "no valid index for its REPLICA IDENTITY", "Choose another with REPLICA IDENTITY USING INDEX"
    elif any(row[0] and not row[3] for row in rows):
        lack, remedy = "a DEFERRABLE primary key, which cannot identify rows", "Make the key NOT DEFERRABLE"
    elif any(row[0] for row in rows):
        lack, remedy = "a primary key whose index is invalid", "REINDEX its index"
    else:
        lack, remedy = "no primary key", "Add a primary key"
    return UnsafeTable(
        f"{entry.name} has {lack}: once published, its UPDATE and DELETE would fail",
        hint=f"{remedy}, or run ALTER TABLE {entry.spelled} REPLICA IDENTITY FULL.",
    )


def _by_table(connection: Connection, query: str, oids: list[int]) -> dict[int, list[tuple[Any, ...]]]:
    grouped: dict[int, list[tuple[Any, ...]]] = {}
    for oid, *rest in connection.execute(query.encode(), [oids]):
        grouped.setdefault(oid, []).append(tuple(rest))
    return grouped
