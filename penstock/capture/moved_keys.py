"""Ranges of one table that were copied under different snapshots, made into the table at the newest of them.

Let F be the LSN of the newest snapshot, and K every key, old or new, in the table's changes after the oldest snapshot
and up to F. A row whose key is not in K was not inserted, updated or deleted in between, and the table was not
rewritten: it is the same row version in the same block under all these snapshots, so it lies in exactly one of the
ranges, whenever that was copied. Of the keys in K the ranges may hold an old image, none, or two (an update may move
a row into another block, and so into or out of a range). So whatever the ranges have of K is taken back, and the rows
of K are read again by key under the snapshot at F. What results is the table at F, exactly; a value that the WAL left
out (TOAST) does not matter, because no image comes from the WAL. Changes must come as the WAL has them: an update that
consolidation would cancel still moves its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from penstock.capture.discover import SourceTable
from penstock.capture.selection import where
from penstock.capture.table_copy import from_table, selected
from penstock.relation.schema import Schema
from penstock.zset import WEIGHT, among, key_ids

_FIRST_USER_OID = 16384  # operators of types beyond it need not be in pg_catalog
_CHUNK = 10_000


def can_be_read_by_key(schema: Schema) -> bool:
    """Whether rows of a table can be asked for by key, in the form that the key has here."""
    kinds = [schema.column(name).arrow for name in schema.key]
    known = all(
        pa.types.is_string(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_binary(kind)
        for kind in kinds
    )
    return bool(kinds) and known and all(schema.column(name).pg.oid < _FIRST_USER_OID for name in schema.key)


def distinct_keys(parts: Iterable[pa.Table], schema: Schema) -> pa.Table:
    """Each key once."""
    empty = schema.arrow(schema.key).empty_table()
    keys = pa.concat_tables([empty, *(part.select(list(schema.key)).cast(empty.schema) for part in parts)])
    return first_of_each(keys, schema)


def first_of_each(rows: pa.Table, schema: Schema) -> pa.Table:
    """One row of each key."""
    if not rows.num_rows:
        return rows
    _, first = np.unique(key_ids(rows.select(list(schema.key))), return_index=True)
    return rows.take(pa.array(np.sort(first)))


def taken_back(rows: pa.Table, keys: pa.Table, lsn: int) -> pa.Table:
    """The rows of `keys`, each taken back at `lsn`."""
    hits = rows.filter(among(rows.select(keys.column_names), keys))
    count = hits.num_rows
    changed = {
        WEIGHT: pc.negate(hits[WEIGHT]),
        "_lsn": pa.array(np.full(count, lsn, np.int64)),
    }
    for name, values in changed.items():
        hits = hits.set_column(hits.schema.get_field_index(name), hits.schema.field(name), values)
    return hits


def chunks(keys: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, keys.num_rows, _CHUNK):
        yield keys.slice(start, _CHUNK)


def by_key_command(table: SourceTable, keys: pa.Table) -> sql.Composed:
    """COPY of the rows that have one of the keys."""
    places = range(len(keys.column_names))
    names = [sql.Identifier(f"_penstock_{place}") for place in places]
    arrays = [sql.SQL("{}::text[]").format(sql.Literal(_texts(keys.column(place)))) for place in places]
    casts = [
        sql.SQL("u.{}::{} AS {}").format(name, sql.SQL(table.schema.column(column).pg.name), name)
        for name, column in zip(names, keys.column_names, strict=True)
    ]
    matches = [
        sql.SQL("t.{} = w.{}").format(sql.Identifier(column), name)
        for name, column in zip(names, keys.column_names, strict=True)
    ]
    return sql.SQL(
        "COPY (SELECT {} FROM (SELECT {} FROM unnest({}) AS u({})) AS w JOIN {} t ON {} WHERE {}) "
        "TO STDOUT (FORMAT binary)"
    ).format(
        sql.SQL(", ").join(selected(table)),
        sql.SQL(", ").join(casts),
        sql.SQL(", ").join(arrays),
        sql.SQL(", ").join(names),
        from_table(table),
        sql.SQL(" AND ").join(matches),
        where(table),
    )


def _texts(values: pa.ChunkedArray) -> list[str]:
    """The values as PostgreSQL reads them."""
    if pa.types.is_binary(values.type):
        return ["\\x" + value.hex() for value in values.to_pylist()]
    return cast(list[str], values.cast(pa.string()).to_pylist())
