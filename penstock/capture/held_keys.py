"""Which foreign keys of a source hold, and between which cuts.

A key counts from the server's position after it was seen (what made it valid is committed before that) up to the
position before it was seen. A transaction that drops it, or turns its triggers off, may have written its commit and not
be visible yet; until it is, it holds a strong lock on one of the tables, so the locks are looked at in between and a
key of a locked table is left for the next time. Dropping, making anew and turning triggers off and on all leave other
versions of the catalog's rows behind, and these are the key's identity.

Where a subscription applies changes into the database, or a session uses session_replication_role, foreign keys are
not checked: with a subscription none counts, and of the role nothing can be seen (docs/operators.md says how to turn
this off). Partitioned tables have triggers of their own on each partition, and texts of a nondeterministic collation
are equal when their bytes are not: neither counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.capture.connection import Connection
from penstock.catalog.foreign_keys import Sighting
from penstock.lsn import Lsn
from penstock.relation.schema import ForeignKey

_POSITION = "SELECT pg_current_wal_insert_lsn()::text"
_LOCKED = """
SELECT DISTINCT l.relation::int8 FROM pg_locks l
JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
WHERE l.granted AND l.locktype = 'relation'
  AND l.mode IN ('ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
_KEYS = """
SELECT k.oid::text || ':' || k.xmin::text || ':' || COALESCE(
         (SELECT string_agg(t.oid::text || '.' || t.xmin::text, ',' ORDER BY t.oid) FROM pg_trigger t
          WHERE t.tgconstraint = k.oid), ''),
       k.conrelid::int8, k.confrelid::int8,
       cn.nspname || '.' || c.relname, pn.nspname || '.' || p.relname,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, i)
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.i),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(n, i)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.i)
FROM pg_constraint k
JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace cn ON cn.oid = c.relnamespace
JOIN pg_class p ON p.oid = k.confrelid JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE k.contype = 'f' AND k.convalidated AND c.relkind = 'r' AND p.relkind = 'r'
  AND NOT c.relispartition AND NOT p.relispartition
  AND COALESCE((to_jsonb(k) ->> 'conenforced')::bool, true)     -- columns of PostgreSQL 18
  AND NOT COALESCE((to_jsonb(k) ->> 'conperiod')::bool, false)
  AND (SELECT count(*) FROM pg_trigger t WHERE t.tgconstraint = k.oid AND t.tgenabled IN ('O', 'A')) = 4
  AND NOT EXISTS (SELECT FROM pg_attribute a JOIN pg_collation o ON o.oid = a.attcollation
                  WHERE (a.attrelid, a.attnum) IN (SELECT k.conrelid, unnest(k.conkey)
                                                   UNION ALL SELECT k.confrelid, unnest(k.confkey))
                    AND NOT COALESCE((to_jsonb(o) ->> 'collisdeterministic')::bool, true))
  AND NOT EXISTS (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
                  WHERE d.datname = current_database())
"""


def held_keys(connection: Connection, tables: Iterable[str]) -> list[Sighting]:
    """The keys among the tables that hold now. Each statement sees what is committed when it begins."""
    wanted = set(tables)
    until = _position(connection)
    locked = {row[0] for row in connection.execute(_LOCKED)}
    found = connection.execute(_KEYS).fetchall()
    since = _position(connection)
    return [
        Sighting(identity, child, ForeignKey(tuple(columns), parent, tuple(parent_columns)), since, until)
        for identity, child_oid, parent_oid, child, parent, columns, parent_columns in found
        if {child, parent} <= wanted and not {child_oid, parent_oid} & locked
    ]


def _position(connection: Connection) -> Lsn:
    row = connection.execute(_POSITION).fetchone()
    assert row is not None
    return Lsn.parse(row[0])
