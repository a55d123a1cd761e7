"""The publication: tables listed by name, with their selection of rows and columns, and all operations.

One that we made carries a mark in its comment; only such a one is ever extended or dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from psycopg import sql

from penstock.capture.connection import Connection, translated
from penstock.capture.discover import SourceTable, spell
from penstock.capture.partitions import VIA_ROOT
from penstock.capture.selection import is_selected, listed_table
from penstock.errors import PublicationLost, SourceError

_MARK = "made by penstock"
_PUBLICATION = """
SELECT p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete
           AND COALESCE((to_jsonb(p) ->> 'pubtruncate')::bool, true),  -- 11 and later
       obj_description(p.oid, 'pg_publication'), to_jsonb(p) ->> 'pubgencols',
       COALESCE((to_jsonb(p) ->> 'pubviaroot')::bool, false)
FROM pg_publication p WHERE p.pubname = %s
"""
# A table is given by an entry of its own, of its schema or of a table that it is a partition of.
_MEMBERSHIP = """
WITH RECURSIVE up(captured, oid, schema, depth) AS (
    SELECT c.oid, c.oid, c.relnamespace, 0 FROM pg_class c WHERE c.oid = ANY(%(tables)s::int8[]::oid[])
    UNION ALL
    SELECT up.captured, c.oid, c.relnamespace, up.depth + 1
    FROM up JOIN pg_class part ON part.oid = up.oid AND part.relispartition
    JOIN pg_inherits i ON i.inhrelid = up.oid JOIN pg_class c ON c.oid = i.inhparent)
SELECT p.oid::int8, p.xmin::text, COALESCE((to_jsonb(p) ->> 'pubviaroot')::bool, false),
       given.captured::int8, given.entry::int8, given.depth
FROM pg_publication p LEFT JOIN LATERAL (
    SELECT up.captured, r.oid AS entry, up.depth FROM up JOIN pg_publication_rel r ON r.prrelid = up.oid
    WHERE r.prpubid = p.oid
    UNION ALL SELECT up.captured, p.oid, up.depth FROM up WHERE p.puballtables{schemas}) AS given ON true
WHERE p.pubname = %(name)s
"""
_OF_SCHEMAS = """
    UNION ALL SELECT up.captured, s.oid, up.depth FROM up JOIN pg_publication_namespace s ON s.pnnspid = up.schema
    WHERE s.pnpubid = p.oid"""
_SCHEMAS = 150000
_MISSED = (
    "Changes made meanwhile were not published, and no ALTER PUBLICATION brings them back: the tables must be copied "
    "again. {} does that; without a home, remove slot and publication and start anew."
)
ALL_AGAIN = _MISSED.format("`penstock slots recreate`")
_SOME_AGAIN = _MISSED.format("`resync` of each of these tables")
_TABLES = "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s"
_ENTRIES = """
SELECT n.nspname, c.relname FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s
"""
_LISTED = """
SELECT n.nspname || '.' || c.relname,
       COALESCE(to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs') IS NOT NULL
FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s
"""


@dataclass(frozen=True)
class Publication:
    """A publication as it is on the server."""

    name: str
    ours: bool
    whole: bool  # publishes inserts, updates, deletes and truncates
    generated: bool  # publishes stored generated columns (18 and later)
    tables: frozenset[str]
    filtered: frozenset[str]  # tables with a row filter or a column list
    via_root: bool = True  # changes of a partition come under its root's name
    broad: bool = False  # all tables of the database, or of a schema, also those to come

    def missing(self, tables: Mapping[str, SourceTable]) -> list[str]:
        return sorted(set(tables) - self.tables)


def read_publication(connection: Connection, name: str) -> Publication | None:
    with translated():
        row = connection.execute(_PUBLICATION, [name]).fetchone()
        if row is None:
            return None
        listed: dict[str, bool] = dict(connection.execute(_LISTED, [name]).fetchall())
        filtered = frozenset(found for found, cut in listed.items() if cut)
        every, whole, comment, generated, via_root = row
        broad = every or _has_schemas(connection, name)
        ours = str(comment or "").startswith(_MARK)
        # pg_publication_tables locks the tables: behind a DDL or TRUNCATE that waits for our copy, that would not end.
        tables = frozenset(listed if ours else (found for (found,) in connection.execute(_TABLES, [name])))
    return Publication(name, ours, whole, generated == "s", tables, filtered, via_root, broad)


def _has_schemas(connection: Connection, name: str) -> bool:
    if connection.info.server_version < _SCHEMAS:
        return False
    query = "SELECT FROM pg_publication_namespace s JOIN pg_publication p ON p.oid = s.pnpubid WHERE p.pubname = %s"
    return connection.execute(query, [name]).fetchone() is not None


@dataclass(frozen=True)
class Membership:
    """What shows that a publication gave the same of the captured tables all the time."""

    publication: int = 0  # its OID; 0 is not known
    version: str = ""  # the transaction that wrote it: every ALTER PUBLICATION … SET is one, ADD and DROP are not
    entries: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # by a table's OID, those that give it


def read_membership(connection: Connection, name: str, tables: Collection[int]) -> Membership | None:
    """A publication and its entries for `tables` (OIDs); one that was dropped and comes again has another OID."""
    schemas = _OF_SCHEMAS if connection.info.server_version >= _SCHEMAS else ""
    with translated():
        query = _MEMBERSHIP.format(schemas=schemas).encode()
        rows = connection.execute(query, {"name": name, "tables": list(tables)}).fetchall()
    if not rows:
        return None
    found: dict[int, set[int]] = {}
    as_root: set[int] = set()  # their changes come under another table's name
    for _, _, via_root, table, entry, depth in rows:
        if table is not None:
            found.setdefault(table, set()).add(entry)
            as_root |= {table} if via_root and depth else set()
    entries = {table: tuple(sorted(found[table])) for table in sorted(found) if table not in as_root}
    return Membership(rows[0][0], rows[0][1], entries)


def check_membership(
    name: str, before: Membership, now: Membership | None, tables: Mapping[str, SourceTable]
) -> Membership:
    """A publication that was altered, made anew or lost a table has missed changes, and no server says so.

    What is not known from before is taken as it is now.
    """
    if now is None:
        raise PublicationLost(f"publication {name} does not exist", hint=ALL_AGAIN)
    if before.publication and now.publication != before.publication:
        raise PublicationLost(f"publication {name} was dropped and made again", hint=ALL_AGAIN)
    if before.version and now.version != before.version:
        raise PublicationLost(
            f"publication {name} was altered (SET, RENAME or OWNER): it may not have given every change", hint=ALL_AGAIN
        )
    lost = sorted(
        table.name
        for table in tables.values()
        if not set(before.entries.get(table.oid, ())) <= set(now.entries.get(table.oid, ()))
    )
    if lost:
        raise PublicationLost(
            f"publication {name} lost {', '.join(lost)}, or a row filter or column list of it, for a while or for good",
            hint=_SOME_AGAIN,
            tables=lost,
        )
    return now


def check_still_given(found: Publication, tables: Mapping[str, SourceTable]) -> None:
    """Of tables that were captured before: what the publication lacks now it has lacked for a while."""
    try:
        check_publication(found, tables, extend=False)
    except SourceError as error:
        lacking = error.tables if isinstance(error, PublicationLost) else ()
        raise PublicationLost(error.message, hint=ALL_AGAIN, tables=lacking) from error


def check_publication(found: Publication, tables: Mapping[str, SourceTable], *, extend: bool) -> None:
    """An existing publication must give every change of every table, or be ours to extend."""
    name = found.name
    if not found.whole:
        raise SourceError(
            f"publication {name} does not publish every operation",
            hint=f"Run ALTER PUBLICATION {spell(name)} SET (publish = 'insert, update, delete, truncate').",
        )
    cut = sorted(name for name in found.filtered & set(tables) if not is_selected(tables[name]))
    if cut:
        raise SourceError(
            f"publication {name} has a row filter or a column list on {', '.join(cut)}",
            hint="Use another publication_name, or ask for the same with publication_row_filter and "
            "publication_column_list.",
        )
    generated = [name for name, table in tables.items() if table.generated and not found.generated]
    if generated:
        raise SourceError(
            f"publication {name} leaves out the generated columns of {', '.join(generated)}",
            hint=f"Run ALTER PUBLICATION {spell(name)} SET (publish_generated_columns = stored).",
        )
    roots = [name for name, table in tables.items() if table.partitioned]
    if roots and not found.via_root:
        raise SourceError(
            f"publication {name} gives the changes of {', '.join(roots)} under the names of their partitions",
            hint=f"Run ALTER PUBLICATION {spell(name)} SET (publish_via_partition_root = true), "
            "or capture the partitions as tables: partitions='leaves'.",
        )
    missing = found.missing(tables)
    if missing and not (extend and found.ours):
        spelled = ", ".join(tables[one].spelled for one in missing)
        raise PublicationLost(
            f"publication {name} does not have {', '.join(missing)}",
            hint=f"Run ALTER PUBLICATION {spell(name)} ADD TABLE {spelled}. If a table was dropped and made "
            "again since it was captured, it must be copied again.",
            tables=missing,
        )


def make_publication(connection: Connection, name: str, tables: Mapping[str, SourceTable]) -> None:
    with translated(), connection.transaction():
        given = []
        if connection.info.server_version >= 180000:
            given.append(sql.SQL("publish_generated_columns = stored"))
        if connection.info.server_version >= VIA_ROOT:
            given.append(sql.SQL("publish_via_partition_root = true"))
        options = sql.SQL(" WITH ({})").format(sql.SQL(", ").join(given)) if given else sql.SQL("")
        connection.execute(
            sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(sql.Identifier(name), _list(tables)) + options
        )
        connection.execute(sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(name), sql.Literal(_MARK)))


def extend_publication(connection: Connection, name: str, tables: Mapping[str, SourceTable]) -> None:
    with translated():
        connection.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(name), _list(tables)))


def shrink_publication(connection: Connection, name: str, tables: Collection[str]) -> None:
    """Take out those of the tables that it lists, whatever has become of them."""
    with translated():
        listed = [found for found in connection.execute(_ENTRIES, [name]) if ".".join(found) in tables]
        if listed:
            names = sql.SQL(", ").join(sql.Identifier(*found) for found in listed)
            connection.execute(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(sql.Identifier(name), names))


def drop_publication(connection: Connection, name: str) -> None:
    """Drop it if it is there and ours; a publication somebody else made is left alone."""
    found = read_publication(connection, name)
    if found is not None and found.ours:
        with translated():
            connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))


def _list(tables: Mapping[str, SourceTable]) -> sql.Composed:
    return sql.SQL(", ").join(listed_table(table) for table in tables.values())
