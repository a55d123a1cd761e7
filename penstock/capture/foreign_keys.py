"""Foreign keys that hold at every commit: validated, enforced, their triggers firing, both tables captured."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.capture.connection import Connection
from penstock.relation.schema import ForeignKey

_FOREIGN_KEYS = """
SELECT k.conrelid::int8, k.confrelid::int8,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, i)
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.i),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(n, i)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.i)
FROM pg_constraint k
WHERE k.contype = 'f' AND k.convalidated AND k.conrelid = ANY(%(oids)s) AND k.confrelid = ANY(%(oids)s)
  AND COALESCE((to_jsonb(k) ->> 'conenforced')::bool, true)     -- columns of PostgreSQL 18
  AND NOT COALESCE((to_jsonb(k) ->> 'conperiod')::bool, false)
  AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgconstraint = k.oid AND t.tgenabled NOT IN ('O', 'A'))
ORDER BY k.conrelid, k.conname
"""


def foreign_keys(connection: Connection, names: Mapping[int, str]) -> dict[str, tuple[ForeignKey, ...]]:
    """Those among the tables of `names` (OID to name), by child."""
    found: dict[str, tuple[ForeignKey, ...]] = {}
    for child, parent, columns, parent_columns in connection.execute(_FOREIGN_KEYS, {"oids": list(names)}):
        key = ForeignKey(tuple(columns), names[parent], tuple(parent_columns))
        found[names[child]] = (*found.get(names[child], ()), key)
    return found
