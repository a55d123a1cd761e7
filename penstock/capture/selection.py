"""Which rows and columns of a table are captured: a row filter and a column list of the publication (15 and later).

The copy, the stream and `verify` see the same selection, because all of them take it from one place: what PostgreSQL
itself made of the condition. It is refused where it would make the application's own UPDATE or DELETE fail: a column
list must hold the replica identity, and a row filter may look only at columns that the WAL has of an old row.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import psycopg
from psycopg import errors as pg
from psycopg import sql

from penstock.capture.config import Generated, SourceConfig
from penstock.capture.connection import Connection, connect, translated
from penstock.capture.discover import SourceTable, split_name
from penstock.capture.generated_columns import check_left_out
from penstock.errors import NotFound, PublicationLost, SourceError, UnsafeTable
from penstock.relation.schema import ReplicaIdentity

OLDEST = 150000
T = TypeVar("T")
_EVERY = "*"
_PUBLISHED = """
SELECT n.nspname || '.' || c.relname, pg_get_expr(r.prqual, r.prrelid),
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum = ANY (r.prattrs::int2[]) ORDER BY a.attnum),
       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum IN (
             SELECT m[1]::int FROM regexp_matches(r.prqual::text, ':varattno (\\d+)', 'g') AS m))
FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s
"""


@dataclass(frozen=True)
class Published:
    """What a publication gives of one table: PostgreSQL's own words for the condition, and the columns it reads."""

    row_filter: str | None = None
    columns: tuple[str, ...] = ()  # none is all
    filter_columns: frozenset[str] = frozenset()


_WHOLE = Published()


@dataclass(frozen=True)
class Selection:
    """What the user asked for, by table name; `*` is every table. Empty is everything of every table."""

    rows: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generated: Generated = "refuse"

    @classmethod
    def of(cls, config: SourceConfig) -> Selection:
        return cls(_named(config.row_filters), _named(config.column_lists), config.generated_columns)

    def __bool__(self) -> bool:
        return bool(self.rows or self.columns)

    def row_filter(self, table: str) -> str | None:
        return self.rows.get(table, self.rows.get(_EVERY))

    def column_list(self, table: str) -> tuple[str, ...]:
        return self.columns.get(table, self.columns.get(_EVERY, ()))


EVERYTHING = Selection()


def _named(given: Mapping[str, T]) -> dict[str, T]:
    return {name if name == _EVERY else ".".join(split_name(name)): value for name, value in given.items()}


def select(
    connection: Connection, tables: dict[str, SourceTable], selection: Selection, publication: str | None
) -> dict[str, SourceTable]:
    """The tables as they will be captured, once their selection is safe and agrees with an existing publication."""
    check_left_out((t for name, t in tables.items() if not selection.column_list(name)), selection.generated)
    if connection.info.server_version < OLDEST:
        if selection:
            raise SourceError(
                f"PostgreSQL {connection.info.server_version // 10000} has no row filters and column lists",
                hint="They came with 15. Leave them out: all rows and columns are captured.",
            )
        return tables
    existing = {} if publication is None else _as_whole(published(connection, publication), tables)
    if not selection and not any(existing.get(name, _WHOLE) != _WHOLE for name in tables):
        return tables
    _check_names(tables, selection)
    narrow = {name: _narrowed(table, selection.column_list(name)) for name, table in tables.items()}
    wanted = _understood(connection, tables, selection, existing)
    for name in tables:
        _check_filter(tables[name], wanted[name])
        if name in existing and existing[name] != wanted[name]:
            raise _differs(str(publication), name, existing[name])
    return _without_broken_keys({n: replace(t, row_filter=wanted[n].row_filter) for n, t in narrow.items()})


def _as_whole(found: dict[str, Published], tables: Mapping[str, SourceTable]) -> dict[str, Published]:
    """A list of all columns is none."""
    return {
        name: replace(one, columns=()) if set(one.columns) == set(tables[name].schema.names) else one
        for name, one in found.items()
        if name in tables
    }


def published(connection: Connection, publication: str) -> dict[str, Published]:
    """What a publication gives, by table that it lists; a table of a listed schema is given whole."""
    if connection.info.server_version < OLDEST:
        return {}
    with translated():
        return {
            name: Published(row_filter, tuple(columns), frozenset(used))
            for name, row_filter, columns, used in connection.execute(_PUBLISHED, [publication])
        }


def for_tables(config: SourceConfig, names: Collection[str]) -> SourceConfig:
    """The configuration with the row filters and column lists of these tables only."""
    wanted = {_EVERY, *names}
    rows = {name: text for name, text in _named(config.row_filters).items() if name in wanted}
    columns = {name: listed for name, listed in _named(config.column_lists).items() if name in wanted}
    return replace(config, publication_row_filter=rows, publication_column_list=columns)


def selections(dsn: str, publication: str) -> dict[str, str]:
    """The conditions on rows of the tables that are captured in part; `true` where only columns are left out."""
    with connect(dsn) as connection:
        found = published(connection, publication)
    return {name: one.row_filter or "true" for name, one in found.items() if one != _WHOLE}


def narrowed_like(table: SourceTable, like: SourceTable) -> SourceTable:
    """The table as it is now, with the columns of an earlier selection that it still has."""
    if not like.listed:
        return table
    kept = [name for name in table.schema.names if name in like.schema.names]
    return replace(_keep(table, kept), row_filter=like.row_filter)


def listed_table(table: SourceTable) -> sql.Composed:
    """The table as CREATE and ALTER PUBLICATION list it; ONLY leaves its inheritance children out."""
    only = sql.SQL("" if table.partitioned else "ONLY ")
    parts: list[sql.Composable] = [only, sql.Identifier(table.schema_name, table.table_name)]
    if table.listed:
        parts += [sql.SQL(" ({})").format(sql.SQL(", ").join(map(sql.Identifier, table.schema.names)))]
    if table.row_filter is not None:
        parts += [sql.SQL(" WHERE "), condition(table.row_filter)]
    return sql.Composed(parts)


def is_selected(table: SourceTable) -> bool:
    return table.listed or table.row_filter is not None


def where(table: SourceTable) -> sql.Composed:
    """The rows of the table that are captured."""
    return sql.Composed([sql.SQL("true")]) if table.row_filter is None else condition(table.row_filter)


def condition(text: str) -> sql.Composed:
    """A condition of the user's in parentheses; the line's end closes what a comment in it would leave open."""
    return sql.SQL("({}\n)").format(sql.SQL(text))


def _check_names(tables: Mapping[str, SourceTable], selection: Selection) -> None:
    for name in (*selection.rows, *selection.columns):
        if name != _EVERY and name not in tables:
            raise NotFound(
                f"a row filter or column list is for {name}, which is not captured",
                hint=f"Captured tables are {', '.join(tables)}.",
            )


def _narrowed(table: SourceTable, columns: tuple[str, ...]) -> SourceTable:
    if not columns or set(columns) == set(table.schema.names):
        return table
    schema = table.schema
    unknown = sorted(set(columns) - set(schema.names))
    if unknown:
        raise NotFound(
            f"the column list of {table.name} has {', '.join(unknown)}", hint=f"It has {', '.join(schema.names)}."
        )
    if schema.identity is ReplicaIdentity.FULL:
        raise UnsafeTable(
            f"{table.name} has REPLICA IDENTITY FULL: with a column list its UPDATE and DELETE would fail",
            hint=f"Run ALTER TABLE {table.spelled} REPLICA IDENTITY DEFAULT, or capture all its columns.",
        )
    missing = sorted(set(schema.key) - set(columns))
    if missing:
        raise UnsafeTable(
            f"the column list of {table.name} leaves out {', '.join(missing)} of its key: "
            "its UPDATE and DELETE would fail",
            hint=f"Add {', '.join(missing)} to the list.",
        )
    return _keep(table, [name for name in schema.names if name in columns])


def _keep(table: SourceTable, names: list[str]) -> SourceTable:
    """The server sends columns in the table's order, whatever the order of the list."""
    at = [table.schema.names.index(name) for name in names]
    schema = replace(
        table.schema,
        columns=tuple(table.schema.columns[i] for i in at),
        foreign_keys=tuple(f for f in table.schema.foreign_keys if set(f.columns) <= set(names)),
    )
    return replace(table, schema=schema, sends=tuple(table.sends[i] for i in at), listed=True)


def _understood(
    connection: Connection, tables: Mapping[str, SourceTable], selection: Selection, existing: Mapping[str, Published]
) -> dict[str, Published]:
    """The selection in PostgreSQL's words: from a publication that is rolled back, or from the one that is there."""
    columns = {name: _narrowed(t, selection.column_list(name)) for name, t in tables.items()}
    listed = {name: t.schema.names if t.listed else () for name, t in columns.items()}
    filtered = {n: replace(t, row_filter=selection.row_filter(n)) for n, t in tables.items() if selection.row_filter(n)}
    try:
        probed = _probe(connection, filtered) if filtered else {}
    except pg.InsufficientPrivilege:  # not the tables' owner: a given publication must say the same, word for word
        probed = {name: _by_words(str(t.row_filter), existing.get(name, _WHOLE)) for name, t in filtered.items()}
    return {name: replace(probed.get(name, _WHOLE), columns=listed[name]) for name in tables}


def _probe(connection: Connection, tables: Mapping[str, SourceTable]) -> dict[str, Published]:
    """Prepared, because then PostgreSQL takes one statement and no more, whatever the condition says."""
    name = f"penstock_probe_{secrets.token_hex(4)}"
    listed = sql.SQL(", ").join(listed_table(table) for table in tables.values())
    command = sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), listed)
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(command, prepare=True)
            return published(connection, name)
    except pg.InsufficientPrivilege:
        raise
    except (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.DataError) as error:
        raise SourceError(
            f"PostgreSQL refuses the row filter: {str(error).splitlines()[0]}",
            hint="It is a condition on columns of the table, with built-in immutable functions only.",
        ) from error


def _by_words(text: str, existing: Published) -> Published:
    same = existing.row_filter is not None and _bare(text) == _bare(existing.row_filter)
    return existing if same else Published(text)


def _bare(text: str) -> str:
    """
    >>> _bare("(status =  'a')") == _bare("status = 'a'")
    True
    """
    text = re.sub(r"\s+", " ", text.strip())
    return text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text


def _check_filter(table: SourceTable, wanted: Published) -> None:
    if wanted.row_filter is None or table.schema.identity is ReplicaIdentity.FULL:
        return
    unlogged = sorted(wanted.filter_columns - set(table.schema.key))
    if unlogged:
        raise UnsafeTable(
            f"the row filter of {table.name} looks at {', '.join(unlogged)}, which the WAL does not have of old rows: "
            "its UPDATE and DELETE would fail",
            hint=f"Run ALTER TABLE {table.spelled} REPLICA IDENTITY FULL, or filter on the key only.",
        )


def _differs(publication: str, table: str, existing: Published) -> PublicationLost:
    asked = []
    if existing.row_filter is not None:
        asked.append(f'publication_row_filter={{"{table}": "{existing.row_filter}"}}')
    if existing.columns:
        asked.append(f'publication_column_list={{"{table}": {list(existing.columns)}}}')
    return PublicationLost(
        f"publication {publication} has another row filter or column list on {table} than was asked for",
        hint=f"Ask for {' and '.join(asked) or 'all its rows and columns'}, or use another publication_name.",
    )


def _without_broken_keys(tables: dict[str, SourceTable]) -> dict[str, SourceTable]:
    """A foreign key between tables of which rows are left out promises nothing here."""
    cut = {name for name, table in tables.items() if table.row_filter is not None}
    return {
        name: replace(
            table,
            schema=replace(
                table.schema,
                foreign_keys=tuple(
                    key for key in table.schema.foreign_keys if name not in cut and _whole(key.parent, tables, cut)
                ),
            ),
        )
        for name, table in tables.items()
    }


def _whole(parent: str, tables: Mapping[str, SourceTable], cut: set[str]) -> bool:
    return parent in tables and parent not in cut
