"""Everything that can be known to fail before anything is made on the source, each as one error with its remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.capture.config import Partitions, with_schema
from penstock.capture.connection import Connection, connect, translated
from penstock.capture.discover import SourceTable, discover, spell
from penstock.capture.publication import Publication, check_publication, read_publication
from penstock.capture.selection import EVERYTHING, Selection, select
from penstock.capture.slot import read_slot, slot_exists
from penstock.errors import MissingPrivilege, NoSlotLeft, NotYet, SourceError, SourceUnreachable, UnsafeTable
from penstock.relation.schema import Schema

OLDEST = 100000
_TRUNCATES = 110000  # TRUNCATE is replicated from here on

_ROLE = """
SELECT current_user::text,
       rolsuper OR rolreplication OR EXISTS (
           SELECT FROM pg_roles r WHERE r.rolname IN ('rds_replication', 'rds_superuser', 'cloudsqlsuperuser')
           AND pg_has_role(current_user, r.oid, 'MEMBER')),
       has_database_privilege(current_database(), 'CREATE'), current_database()::text
FROM pg_roles WHERE rolname = current_user
"""
_TABLE = """
SELECT c.oid::int8, has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
       pg_has_role(c.relowner, 'USAGE'), row_security_active(c.oid)
FROM pg_class c WHERE c.oid = ANY(%s)
"""
_UNSAFE = """
SELECT t.schemaname || '.' || t.tablename
FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
WHERE t.pubname = %s AND c.relreplident <> 'f' AND NOT EXISTS (
    SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
    AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END)
ORDER BY 1
"""
_ROOM = """
SELECT current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_get_wal_senders())
"""


def check(
    dsn: str,
    tables: Sequence[str],
    *,
    slot: str | None = None,
    publication: str | None = None,
    schema_name: str = "public",
    assume_no_truncate: bool = False,
    selection: Selection = EVERYTHING,
    partitions: Partitions = "root",
) -> dict[str, Schema]:
    """All checks for capturing `tables` anew; makes nothing. Returns the shapes of the tables."""
    with connect(dsn) as connection:
        check_truncates(connection, assume_no_truncate)
        names = [with_schema(t, schema_name) for t in tables]
        found = check_new(connection, names, slot, publication, partitions=partitions, selection=selection)
    return {name: table.schema for name, table in found.items()}


def check_new(
    connection: Connection,
    names: Sequence[str],
    slot: str | None,
    publication: str | None,
    *,
    partitions: Partitions = "root",
    selection: Selection = EVERYTHING,
) -> dict[str, SourceTable]:
    """The tables, once nothing stands in the way of a publication and a slot for them."""
    check_server(connection)
    check_role(connection)
    tables = select(connection, discover(connection, names, partitions), selection, publication)
    check_readable(connection, tables)
    if slot is not None and read_slot(connection, slot) is not None:
        raise slot_exists(slot)
    _check_room(connection)
    if publication is not None:
        _check_publishable(connection, publication, tables)
    return tables


def check_server(connection: Connection) -> None:
    version = connection.info.server_version
    if version < OLDEST:
        raise SourceError(
            f"the source is PostgreSQL {version // 10000}", hint=f"Capture needs {OLDEST // 10000} or later."
        )
    wal_level, recovering = _row(connection, "SELECT current_setting('wal_level'), pg_is_in_recovery()")
    if recovering:
        raise NotYet("capturing from a standby", hint="Connect to the primary.")
    if wal_level != "logical":
        raise SourceError(
            f"the source has wal_level={wal_level}, which does not log what capture needs",
            hint="Run ALTER SYSTEM SET wal_level = 'logical' and restart the server.",
        )


def check_promoted(connection: Connection) -> None:
    """A standby where the primary was captured: it may be about to take its place, so that is worth waiting for."""
    if _row(connection, "SELECT pg_is_in_recovery()")[0]:
        raise SourceUnreachable(
            "the server is a standby, and the source was captured from its primary",
            hint="It goes on by itself when the standby is promoted. If it stays one, connect to the primary; "
            "target_session_attrs=read-write in the connection finds it among several hosts.",
        )


def check_truncates(connection: Connection, assumed_away: bool) -> None:
    """Before 11 a TRUNCATE leaves nothing in the stream: its rows would stay here, and nobody would know."""
    if connection.info.server_version < _TRUNCATES and not assumed_away:
        raise SourceError(
            f"PostgreSQL {connection.info.server_version // 10000} does not replicate TRUNCATE, so it would be missed",
            hint="Upgrade to 11 or later. If nobody ever truncates the captured tables, pass assume_no_truncate=True.",
        )


def check_role(connection: Connection) -> None:
    role, replicates, _, _ = _row(connection, _ROLE)
    if not replicates:
        raise MissingPrivilege(
            f"role {role} may not use replication", hint=f"Run ALTER ROLE {spell(role)} REPLICATION as a superuser."
        )


def check_readable(connection: Connection, tables: Mapping[str, SourceTable]) -> None:
    role = connection.info.user
    for name, (readable, _, filtered) in _privileges(connection, tables).items():
        grantee, table = spell(role), tables[name]
        if not readable:
            raise MissingPrivilege(
                f"role {role} may not read {name}",
                hint=f"Run GRANT USAGE ON SCHEMA {spell(table.schema_name)} TO {grantee}; "
                f"GRANT SELECT ON {table.spelled} TO {grantee}.",
            )
        if filtered:
            raise MissingPrivilege(
                f"row security hides rows of {name} from role {role}", hint=f"Run ALTER ROLE {grantee} BYPASSRLS."
            )


def _check_room(connection: Connection) -> None:
    slots, used_slots, senders, used_senders = _row(connection, _ROOM)
    if used_slots >= slots:
        raise NoSlotLeft(
            f"all {slots} replication slots of the server are taken",
            hint="Drop one that nobody uses (SELECT slot_name, active FROM pg_replication_slots), "
            "or raise max_replication_slots and restart.",
        )
    if used_senders >= senders:
        raise NoSlotLeft(
            f"all {senders} WAL senders of the server are busy", hint="Raise max_wal_senders and restart the server."
        )


def _check_publishable(connection: Connection, publication: str, tables: Mapping[str, SourceTable]) -> None:
    found = read_publication(connection, publication)
    if found is not None:
        check_publication(found, tables, extend=True)
        _check_others(connection, found)
        if not found.missing(tables):
            return
    role, _, may_create, database = _row(connection, _ROLE)
    listed = ", ".join(table.spelled for table in tables.values())
    statement = f"CREATE PUBLICATION {spell(publication)} FOR TABLE {listed}"
    if found is None and not may_create:
        raise MissingPrivilege(
            f"role {role} may not create a publication",
            hint=f"Run GRANT CREATE ON DATABASE {spell(database)} TO {spell(role)}, or make it yourself: {statement}.",
        )
    foreign = [name for name, (_, owned, _) in _privileges(connection, tables).items() if not owned]
    if foreign:
        raise MissingPrivilege(
            f"role {role} does not own {', '.join(foreign)}, so it cannot publish them",
            hint=f"As their owner, run {statement}, or make {spell(role)} a member of the owning role.",
        )


def _check_others(connection: Connection, found: Publication) -> None:
    """A publication of whole schemas has tables that nobody asked for: their own UPDATE must go on working."""
    if not found.broad:
        return
    with translated():
        unsafe = [name for (name,) in connection.execute(_UNSAFE, [found.name])]
    if unsafe:
        raise UnsafeTable(
            f"publication {found.name} has tables without an identity, so their UPDATE and DELETE fail: "
            f"{', '.join(unsafe)}",
            hint="Give each a primary key or REPLICA IDENTITY FULL, or use a publication that lists tables by name.",
        )


def _privileges(connection: Connection, tables: Mapping[str, SourceTable]) -> dict[str, tuple[bool, bool, bool]]:
    names = {table.oid: name for name, table in tables.items()}
    with translated():
        return {names[oid]: (r, o, f) for oid, r, o, f in connection.execute(_TABLE, [list(names)])}


def _row(connection: Connection, query: str) -> tuple[Any, ...]:
    with translated():
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row
