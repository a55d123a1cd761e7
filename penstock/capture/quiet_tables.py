"""The shape of a table that changed while none of its rows did, and a position at which it certainly has it.

While the table is locked against DDL (nothing else waits for such a lock), its shape and the server's position belong
together: rows up to there that came in the old shape are all there are of it.
"""

from __future__ import annotations

from contextlib import suppress

from psycopg import errors as pg
from psycopg import sql

from penstock.capture.config import Partitions
from penstock.capture.connection import Connection
from penstock.capture.discover import SourceTable, discover, spell, split_name
from penstock.capture.messages import Relation, RelationColumn
from penstock.capture.relations import Relations
from penstock.capture.table_look import TableLook
from penstock.lsn import Lsn
from penstock.relation.schema import ReplicaIdentity


def shape_now(connection: Connection, name: str, partitions: Partitions) -> tuple[SourceTable, Lsn] | None:
    """None if somebody is changing it right now: then the next look tells."""
    schema, _, table = name.partition(".")
    with suppress(pg.LockNotAvailable), connection.transaction():
        lock = sql.SQL("LOCK TABLE ONLY {} IN ACCESS SHARE MODE NOWAIT").format(sql.Identifier(schema, table))
        connection.execute(lock)
        found = discover(connection, [spell(schema, table)], partitions)[".".join(split_name(spell(schema, table)))]
        row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return found, Lsn.parse(row[0])
    return None


def evolved(connection: Connection, known: SourceTable, now: SourceTable) -> SourceTable:
    """The known table in the shape it has now, as if the WAL had announced it; `SchemaChanged` if that loses rows."""
    whole = now.schema.identity is ReplicaIdentity.FULL
    columns = tuple(
        RelationColumn(c.name, c.pg.oid, c.pg.typmod, whole or c.name in now.schema.key) for c in now.schema.columns
    )
    announced = Relation(now.oid, now.schema_name, now.table_name, now.schema.identity.value, columns)
    shapes = Relations({known.name: known}, TableLook(lambda: connection), "follow")
    shapes.announce(announced)
    found = shapes.table(now.oid)
    assert found is not None
    return found
