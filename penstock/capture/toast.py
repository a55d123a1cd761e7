"""Large values that an UPDATE left alone and the WAL does not carry (an identity other than FULL).

They are NULL and their positions stand in `_absent`; settling fills them exactly from the changelog. Other consumers
choose: `fetch` reads them again by key, `cache-unchanged` remembers them, `sentinel` puts a constant text in their
place, `require-full` refuses tables that could have them. A value is taken out of `_absent` only when it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from penstock.capture.connection import Connection, translated
from penstock.capture.discover import SourceTable, spell
from penstock.capture.generated_columns import sent
from penstock.capture.table_copy import TableCopy, copy_command
from penstock.errors import SourceError, SourceUnreachable, UnsafeTable
from penstock.relation.schema import ReplicaIdentity
from penstock.zset import ABSENT, WEIGHT, absent_mask, absent_texts, key_ids

SENTINEL = "__toast_unavailable__"

_LARGE = """
SELECT a.attrelid::int8, a.attname FROM pg_attribute a
WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attlen = -1 AND a.attstorage <> 'p'
  AND {sent}
ORDER BY a.attrelid, a.attnum
"""

Mask = npt.NDArray[np.bool_]


@dataclass
class ToastCounts:
    """Values that were missing from new images: found after all, and left marked as absent."""

    filled: int = 0
    missed: int = 0


class Toast(Protocol):
    """A way to handle missing values."""

    counts: ToastCounts

    def fill(self, table: SourceTable, rows: pa.Table) -> pa.Table: ...


class Settled:
    """Leaves them to settling."""

    def __init__(self) -> None:
        self.counts = ToastCounts()

    def fill(self, table: SourceTable, rows: pa.Table) -> pa.Table:
        return rows


class Sentinel:
    """`SENTINEL` in text columns; other types have no value to spare and stay NULL. `_absent` still tells."""

    def __init__(self) -> None:
        self.counts = ToastCounts()

    def fill(self, table: SourceTable, rows: pa.Table) -> pa.Table:
        missing = missing_values(table, rows)
        if missing is None:
            return rows
        self.counts.missed += int(missing.sum())
        for position in np.flatnonzero(missing.any(axis=0)):
            column = table.schema.columns[position]
            if column.arrow == pa.string():
                marked = pc.if_else(pa.array(missing[:, position]), SENTINEL, rows[column.name])
                rows = rows.set_column(int(position), rows.schema.field(int(position)), marked)
        return rows


class Fetch:
    """Reads rows again by key, a query per table and batch. The values are those of now, which a later change of the
    row, still to come, may have made; a row that is gone, or has another key by now, stays marked."""

    def __init__(self, connection: Callable[[], Connection]) -> None:
        self._connection = connection
        self.counts = ToastCounts()

    def fill(self, table: SourceTable, rows: pa.Table) -> pa.Table:
        missing = missing_values(table, rows)
        if missing is None or not table.schema.key:
            return rows
        lacking = np.flatnonzero(missing.any(axis=1))
        keys = rows.select(list(table.schema.key)).take(pa.array(lacking))
        found = self._read(table, keys)
        if found is None:
            self.counts.missed += int(missing.sum())
            return rows
        places = _places(keys, found.select(list(table.schema.key)))
        hit = np.full(rows.num_rows, -1, np.int64)
        hit[lacking] = places
        return self._filled(table, rows, missing, found, hit)

    def _read(self, table: SourceTable, keys: pa.Table) -> pa.Table | None:
        """None if the table is not there any more, or not in this shape."""
        try:
            copy = TableCopy(self._connection(), table, copy_command(table, _among(table, keys)))
            parts = []
            while (part := copy.read(0, lambda: False)) is not None:
                parts.append(pa.table(list(part.columns), schema=table.schema.arrow()))
        except SourceUnreachable:
            raise
        except SourceError:
            return None
        return pa.concat_tables(parts) if parts else table.schema.arrow().empty_table()

    def _filled(
        self, table: SourceTable, rows: pa.Table, missing: Mask, found: pa.Table, hit: npt.NDArray[np.int64]
    ) -> pa.Table:
        absent = absent_mask(rows, len(table.schema.columns))
        known = hit >= 0
        for position in np.flatnonzero(missing.any(axis=0)):
            column = int(position)
            wanted = missing[:, column] & known
            both = pa.chunked_array([*rows[column].chunks, *found[column].chunks], type=rows[column].type)
            source = np.where(wanted, rows.num_rows + hit, np.arange(rows.num_rows))
            rows = rows.set_column(column, rows.schema.field(column), both.take(pa.array(source)))
            absent[wanted, column] = False
            self.counts.filled += int(wanted.sum())
            self.counts.missed += int((missing[:, column] & ~known).sum())
        return rows.set_column(rows.num_columns - 1, rows.schema.field(ABSENT), absent_texts(absent))


def missing_values(table: SourceTable, rows: pa.Table) -> Mask | None:
    """Which values new images lack, as a row × column mask; None if none. Old images have their keys only anyway."""
    if rows[ABSENT].null_count == rows.num_rows:
        return None
    missing = absent_mask(rows, len(table.schema.columns))
    missing[rows[WEIGHT].to_numpy() <= 0] = False
    return missing if missing.any() else None


def check_full(connection: Connection, tables: Iterable[SourceTable]) -> None:
    """`require-full`: every table that may have values out of line must log whole rows."""
    lacking = {table.oid: table for table in tables if table.schema.identity is not ReplicaIdentity.FULL}
    with translated():
        query = _LARGE.format(sent=sent(connection.info.server_version))
        found = connection.execute(query.encode(), [list(lacking)]).fetchall()
    for oid, column in found:
        table = lacking[oid]
        raise UnsafeTable(
            f"{table.name}.{column} may hold values that an UPDATE does not log (toast_handling is require-full)",
            hint=f"Run ALTER TABLE {spell(table.schema_name, table.table_name)} REPLICA IDENTITY FULL, "
            "or choose another toast_handling.",
        )


def _places(keys: pa.Table, among: pa.Table) -> npt.NDArray[np.int64]:
    """Where each key stands in `among`, or -1."""
    ids = key_ids(pa.concat_tables([among, keys]))
    have, need = ids[: among.num_rows], ids[among.num_rows :]
    order = np.argsort(have, kind="stable")
    place = np.searchsorted(have[order], need)
    inside = place < len(have)
    found = np.full(len(need), -1, np.int64)
    at = order[place[inside]]
    found[inside] = np.where(have[at] == need[inside], at, -1)
    return found


def _among(table: SourceTable, keys: pa.Table) -> sql.Composed:
    """A condition on `t` that holds for the rows of these keys: their texts, cast to the columns' own types."""
    key = table.schema.key
    names = [sql.Identifier(f"k{place}") for place in range(len(key))]
    lists = [sql.SQL("{}::text[]").format(sql.Literal(_texts(keys[name]))) for name in key]
    types = [sql.SQL(table.schema.column(name).pg.name) for name in key]
    matches = [
        sql.SQL("{} = k.{}::{}").format(sql.Identifier("t", name), alias, typed)
        for name, alias, typed in zip(key, names, types, strict=True)
    ]
    return sql.SQL("EXISTS (SELECT FROM unnest({}) AS k({}) WHERE {})").format(
        sql.SQL(", ").join(lists), sql.SQL(", ").join(names), sql.SQL(" AND ").join(matches)
    )


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_binary(column.type):
        return ["\\x" + value.hex() for value in column.to_pylist()]
    return [str(text) for text in pc.cast(column, pa.string()).to_pylist()]
