"""A look at one table in the source's catalog while its changes are read: as it is now, not as it was in the WAL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.capture.connection import Connection, translated
from penstock.capture.evolution import CatalogColumn, CatalogTable
from penstock.capture.generated_columns import sent
from penstock.capture.server_types import ServerTypes
from penstock.relation.types import PgType

_TABLE = """
SELECT n.nspname, c.relname, COALESCE(c.relfilenode::int8, 0), c.relreplident::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""
_COLUMNS = """
SELECT a.attname, a.attnum, a.atttypid::int8, a.atttypmod, a.attisdropped, NOT a.attnotnull,
       {missing}, {sent}
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 ORDER BY a.attnum
"""
_MISSING = "(a.attmissingval::text::text[])[1]"  # an array of the column's own type with one element
_NAMES = """
SELECT format_type(t.oid, k.typmod)
FROM unnest(%s::int8[], %s::int4[]) WITH ORDINALITY AS k(oid, typmod, place) LEFT JOIN pg_type t ON t.oid = k.oid
ORDER BY k.place
"""


class TableLook:
    """Asks the catalog over the source's own connection for queries."""

    def __init__(self, connection: Callable[[], Connection]) -> None:
        self._connection = connection

    def table(self, oid: int) -> CatalogTable | None:
        """None if the table is gone."""
        with translated():
            found = self._connection().execute(_TABLE, [oid]).fetchone()
            if found is None:
                return None
            version = self._connection().info.server_version
            missing = _MISSING if version >= 110000 else "NULL::text"  # a default meant a rewrite
            query = _COLUMNS.format(missing=missing, sent=sent(version))
            columns = [CatalogColumn(*row) for row in self._connection().execute(query.encode(), [oid])]
        schema, name, filenode, identity = found
        return CatalogTable(f"{schema}.{name}", filenode, identity, tuple(columns))

    def types(self, wanted: Sequence[tuple[int, int]]) -> list[tuple[PgType, str] | None]:
        """The type and send function of each (type OID, modifier); None for a type that is gone."""
        oids, modifiers = [oid for oid, _ in wanted], [typmod for _, typmod in wanted]
        with translated():
            names = [name for (name,) in self._connection().execute(_NAMES, [oids, modifiers])]
            types = ServerTypes(self._connection(), oids)
        found = [
            None if name is None else types.type(oid, typmod, name)
            for (oid, typmod), name in zip(wanted, names, strict=True)
        ]
        return [None if pg is None else (pg, types.send(pg)) for pg in found]
