"""DDL that would break a stream table, refused on the source itself: the setting `block_source_ddl`.

A table there lists the columns that stream tables use, and event triggers look after each ALTER TABLE and DROP whether
all of them are as they were. Columns that nobody uses may come, go and change. The list is written when stream tables
are made, altered or dropped and when `run()` starts, which also clears it where the setting is off.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg

from penstock.capture.connection import connect
from penstock.catalog import relations, sources, stream_tables
from penstock.errors import MissingPrivilege, SourceUnreachable

if TYPE_CHECKING:
    from penstock.capture.connection import Connection
    from penstock.refresh.engine import Engine

log = logging.getLogger("penstock.stream_tables")

_MAKE = """
CREATE SCHEMA IF NOT EXISTS penstock_guard;
CREATE TABLE IF NOT EXISTS penstock_guard.used (
    home text NOT NULL, reader text NOT NULL, relid oid NOT NULL, attnum int2 NOT NULL, attname name NOT NULL,
    atttypid oid NOT NULL, atttypmod int4 NOT NULL, PRIMARY KEY (home, reader, relid, attnum));
CREATE OR REPLACE FUNCTION penstock_guard.look() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    broken record;
BEGIN
    SELECT u.attname, u.reader INTO broken
    FROM penstock_guard.used u LEFT JOIN pg_attribute a
        ON a.attrelid = u.relid AND a.attnum = u.attnum AND NOT a.attisdropped
    WHERE (a.attname, a.atttypid, a.atttypmod) IS DISTINCT FROM (u.attname, u.atttypid, u.atttypmod) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% refused: column % is used by stream table %', tg_tag, broken.attname, broken.reader
            USING ERRCODE = 'dependent_objects_still_exist',
            HINT = 'Drop or alter the stream table in penstock first, or turn block_source_ddl off there.';
    END IF;
END $body$;
DROP EVENT TRIGGER IF EXISTS penstock_guard_end;
DROP EVENT TRIGGER IF EXISTS penstock_guard_drop;
CREATE EVENT TRIGGER penstock_guard_end ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
    EXECUTE PROCEDURE penstock_guard.look();
CREATE EVENT TRIGGER penstock_guard_drop ON sql_drop EXECUTE PROCEDURE penstock_guard.look();
"""
_USE = """
INSERT INTO penstock_guard.used
SELECT %s, %s, a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname || '.' || c.relname = %s AND a.attname = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
_THERE = "SELECT to_regclass('penstock_guard.used') IS NOT NULL"


def guard(engine: Engine) -> None:
    """Bring the lists on all sources to what the stream tables use now; empty where the setting is off."""
    used = _used(engine) if engine.settings.block_source_ddl else {}
    for source in sources.every(engine.catalog):
        try:
            with connect(source.dsn) as connection:
                _write(connection, engine.catalog.identity, used.get(source.name, []), make=source.name in used)
        except SourceUnreachable as error:
            log.warning("what source %s refuses was not brought up to date: %s", source.name, error.message)


def _used(engine: Engine) -> dict[str, list[tuple[str, str, list[str]]]]:
    """By source: stream table, table and columns."""
    known = {relation.id: relation for relation in relations.every(engine.catalog)}
    found: dict[str, list[tuple[str, str, list[str]]]] = {}
    for table in stream_tables.every(engine.catalog):
        for id_, read in stream_tables.dependencies(engine.catalog, table.relation_id).items():
            relation = known.get(id_)
            if relation is not None and relation.source is not None:
                line = (table.name, relation.table, list(read.columns))
                found.setdefault(relation.source, []).append(line)
    return found


def _write(connection: Connection, home: str, used: list[tuple[str, str, list[str]]], *, make: bool) -> None:
    row: Any = connection.execute(_THERE).fetchone()
    if not row[0] and not make:
        return
    try:
        with connection.transaction():
            if not row[0]:
                connection.execute(_MAKE.encode())
            connection.execute("DELETE FROM penstock_guard.used WHERE home = %s", (home,))
            for reader, table, columns in used:
                connection.execute(_USE, (home, reader, table, columns))
    except pg.InsufficientPrivilege as error:
        raise MissingPrivilege(
            f"block_source_ddl: role {connection.info.user} may not make event triggers: {str(error).strip()}",
            hint="Leave block_source_ddl off, or let a superuser add the source.",
        ) from error
