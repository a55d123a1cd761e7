"""Event triggers on the source that write DDL into the WAL, in its place among the changes: `ddl_trigger=True`.

Whatever goes wrong inside them becomes a warning: the application's own statement never fails by them. They are made in
one transaction or not at all, and go with the last slot that asked for them, as the schema's comment lists them. Table
OIDs are all they tell: names would come in the database's own encoding.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from psycopg import errors as pg
from psycopg import sql

from penstock.capture.connection import Connection, translated
from penstock.capture.messages import LogicalMessage
from penstock.errors import DecodeError, MissingPrivilege, SourceError

PREFIX = "penstock_ddl"
OLDEST = 140000  # pgoutput passes messages on from here
_SCHEMA = "penstock_ddl"
_MARK = "penstock writes DDL into the WAL for slots: "
_VALUES_CHANGE = 2 | 4  # reasons of a rewrite: a default was computed, a column's type changed

_BODY = """
DECLARE
    tables pg_catalog.jsonb;
    reason integer := 0;
BEGIN
    IF tg_event = 'table_rewrite' THEN
        reason := pg_event_trigger_table_rewrite_reason();
        WITH RECURSIVE up(oid) AS (
            SELECT pg_event_trigger_table_rewrite_oid()
            UNION SELECT i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.oid
        ) SELECT jsonb_agg(up.oid::int8) INTO tables FROM up;
    ELSIF tg_event = 'sql_drop' THEN
        SELECT jsonb_agg(d.objid::int8) INTO tables FROM pg_event_trigger_dropped_objects() d
        WHERE d.object_type = 'table' AND NOT d.is_temporary;
    ELSE
        SELECT jsonb_agg(DISTINCT c.objid::int8) INTO tables FROM pg_event_trigger_ddl_commands() c
        WHERE c.classid = 'pg_class'::regclass AND c.schema_name IS DISTINCT FROM 'pg_temp';
    END IF;
    IF tables IS NOT NULL THEN
        PERFORM pg_logical_emit_message(true, 'penstock_ddl', jsonb_build_object(
            'event', tg_event, 'tag', tg_tag, 'reason', reason, 'tables', tables)::text);
    END IF;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'penstock was not told of this %: %', tg_tag, SQLERRM
        USING HINT = 'Tables it captures may have to be copied again.';
END
"""
_TRIGGERS = {
    "penstock_ddl_end": "ddl_command_end WHEN TAG IN ('ALTER TABLE')",
    "penstock_ddl_drop": "sql_drop",
    "penstock_ddl_rewrite": "table_rewrite",
}
_FUNCTION = f"""
CREATE FUNCTION {_SCHEMA}.tell() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body${_BODY}$body$
"""
_FOUND = """
SELECT (SELECT count(*) FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid
        WHERE e.evtname = ANY(%s) AND e.evtenabled IN ('O', 'A') AND p.prosrc = %s),
       n.oid IS NOT NULL, pg_has_role(n.nspowner, 'USAGE'), obj_description(n.oid, 'pg_namespace')
FROM (SELECT) one LEFT JOIN pg_namespace n ON n.nspname = %s
"""
_LIVE = "SELECT slot_name::text FROM pg_replication_slots WHERE slot_name = ANY(%s)"
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('penstock_ddl'))"


@dataclass(frozen=True)
class Ddl:
    """What a trigger told: DDL on `tables`, in the transaction that the message is part of."""

    event: Literal["ddl_command_end", "sql_drop", "table_rewrite"]
    tag: str
    reason: int
    tables: frozenset[int]

    @property
    def lost(self) -> str | None:
        """What became of rows from before, if they cannot be trusted any more."""
        if self.event == "sql_drop":
            return "the table was dropped"
        if self.event == "table_rewrite" and self.reason & _VALUES_CHANGE:
            return f"{self.tag} has rewritten its values"
        return None


def parse_ddl(message: LogicalMessage) -> Ddl | None:
    """What a logical message tells of DDL; None for any other message."""
    if message.prefix != PREFIX:
        return None
    try:
        told = json.loads(message.content)
        if told["event"] not in ("ddl_command_end", "sql_drop", "table_rewrite"):
            raise ValueError(told["event"])
        return Ddl(told["event"], str(told["tag"]), int(told["reason"]), frozenset(map(int, told["tables"])))
    except (ValueError, KeyError, TypeError) as error:
        raise DecodeError(
            f"a message about DDL that cannot be read: {message.content[:80]!r}",
            hint=f"Its prefix {PREFIX} is penstock's own. Open once with ddl_trigger=False to pass it.",
        ) from error


def install_sql() -> str:
    """What an administrator may run instead of us, more than once if need be."""
    drops = [f"DROP EVENT TRIGGER IF EXISTS {name}" for name in _TRIGGERS]
    creates = [
        f"CREATE EVENT TRIGGER {name} ON {event} EXECUTE PROCEDURE {_SCHEMA}.tell()"
        for name, event in _TRIGGERS.items()
    ]
    function = [f"DROP FUNCTION IF EXISTS {_SCHEMA}.tell()", _FUNCTION.strip()]
    return ";\n".join([*drops, f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}", *function, *creates]) + ";\n"


@dataclass(frozen=True)
class _Installed:
    complete: bool
    exists: bool
    ours: bool  # the role may change it
    slots: tuple[str, ...]


def install(connection: Connection, slot: str) -> None:
    """Have the triggers there, for `slot` too. Where somebody else made them, they are used as they are."""
    version = connection.info.server_version
    if version < OLDEST:
        raise SourceError(
            f"ddl_trigger needs PostgreSQL {OLDEST // 10000}, the source is {version // 10000}",
            hint="Leave ddl_trigger out: an older server does not pass messages on.",
        )
    with translated(), connection.transaction():
        connection.execute(_LOCK)
        found = _read(connection)
        if not found.complete:
            _make(connection)
            found = _read(connection)
        if found.ours and slot not in found.slots:
            _write_slots(connection, (*found.slots, slot))


def remove(connection: Connection, slot: str) -> None:
    """`slot` needs the triggers no more; without another one that does they go. May be repeated."""
    with translated(), connection.transaction():
        connection.execute(_LOCK)
        found = _read(connection)
        if not (found.exists and found.ours and found.slots):
            return
        others = [name for name in found.slots if name != slot]
        live = tuple(name for (name,) in connection.execute(_LIVE, [others]))
        if live:
            _write_slots(connection, live)
            return
        for name in _TRIGGERS:
            connection.execute(sql.SQL("DROP EVENT TRIGGER IF EXISTS {}").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}.tell()").format(sql.Identifier(_SCHEMA)))
        connection.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(_SCHEMA)))


def _make(connection: Connection) -> None:
    try:
        with connection.transaction():
            connection.execute(install_sql().encode())
    except pg.InsufficientPrivilege as error:
        raise MissingPrivilege(
            f"role {connection.info.user} may not make event triggers: {str(error).strip()}",
            hint="Leave ddl_trigger out, or have a superuser run this in the database and open again:\n"
            + install_sql(),
        ) from error


def _read(connection: Connection) -> _Installed:
    row = connection.execute(_FOUND, [list(_TRIGGERS), _BODY, _SCHEMA]).fetchone()
    assert row is not None
    count, exists, ours, comment = row
    slots = comment.removeprefix(_MARK).split() if comment and comment.startswith(_MARK) else ()
    return _Installed(count == len(_TRIGGERS), exists, bool(ours), tuple(slots))


def _write_slots(connection: Connection, slots: tuple[str, ...]) -> None:
    listed = sql.Literal(_MARK + " ".join(slots))
    connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(_SCHEMA), listed))
