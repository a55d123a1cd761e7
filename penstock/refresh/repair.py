"""What a verification found to differ is put right: the rows alone where that is safe, else the table or the view.

A table gets a correction: one more segment, behind everything captured, that takes the wrong rows away and gives the
right ones. It is a change like any other, so views and the Delta table follow it. No commit of the source lies between
a position and the next byte of the log, so the correction has that position to itself.

It was found at an LSN, and is applied behind changes that came later. With a key, a later change of the same row may
have taken the wrong image away already (its old image is looked up here), so then the row is compared again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from psycopg import errors as pg

from penstock.capture.checkpoint import Checkpoint
from penstock.capture.connection import connect
from penstock.catalog import relations, sources
from penstock.catalog.relations import Relation
from penstock.failpoint import hit
from penstock.lsn import Lsn
from penstock.refresh.verification import Difference
from penstock.relation.schema import Column
from penstock.relation.segment import SegmentWriter
from penstock.relation.types import INTERVAL, POINT
from penstock.zset import among

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine


def corrected(engine: Engine, relation: Relation, found: Difference, at: Lsn) -> bool:
    """Apply a difference found at `at`; False if rows of it have changed since, so that it must be found again."""
    catalog, name = engine.catalog, str(relation.source)
    with engine.captures.alone(name) as lease:
        source = sources.get(catalog, name)
        assert source.captured is not None
        assert source.checkpoint is not None
        if source.settled != source.captured or _changed_since(engine, relation, found, at, source.captured):
            return False
        position = Lsn(source.captured + 1)
        _move_log(source.dsn)
        attempt = catalog.begin(lease, "repair")
        writer = SegmentWriter(engine.home, relation.folder, attempt)
        written = writer.write(_correction(relation, found, position), position, position, version=relation.version)
        hit("repair.files_written")
        checkpoint = replace(Checkpoint.from_json(source.checkpoint), lsn=position)
        with catalog.commit(lease, attempt, "repair") as commit:
            relations.record_segments(commit, relation.id, [written])
            sources.move(commit, source.id, checkpoint.to_json(), position)
    return True


def _move_log(dsn: str) -> None:
    """A log that ends where it is captured up to would end before the correction: as if it had been put back.

    Where nothing can be written (a standby), it moves by itself before long.
    """
    with connect(dsn) as connection, suppress(pg.ReadOnlySqlTransaction, pg.InsufficientPrivilege):
        connection.execute("SELECT pg_logical_emit_message(true, 'penstock', '')")


def _changed_since(engine: Engine, relation: Relation, found: Difference, at: Lsn, now: Lsn) -> bool:
    """Without a key the log has whole rows, true ones, and the difference stays what it was."""
    if not relation.schema.key:
        return False
    schema = relation.schema.arrow(relation.schema.key)
    found_since = engine.reader.segments(relation, at, now)
    changed = engine.reader.read(relation, found_since, relation.schema.key, after=at, until=now).select(schema.names)
    keys = pa.table(
        [pa.array([key[i] for key in found.keys], field.type) for i, field in enumerate(schema)], schema=schema
    )
    return bool(among(keys, changed).true_count)


def _correction(relation: Relation, found: Difference, position: Lsn) -> pa.Table:
    """The wrong rows with −1, the right ones with +1."""
    rows = [*found.extra, *found.missing]
    weights = [-1] * len(found.extra) + [1] * len(found.missing)
    columns = [_held([row[at] for row in rows], column) for at, column in enumerate(relation.schema.columns)]
    now = time.time_ns() // 1000
    stamps = {
        "_weight": pa.array(weights, pa.int64()),
        "_op": pa.array(["D" if weight < 0 else "R" for weight in weights]),
        "_lsn": pa.array([int(position)] * len(rows), pa.int64()),
        "_ts": pa.array([now] * len(rows), pa.int64()).cast(pa.timestamp("us", "UTC")),
        "_xid": pa.nulls(len(rows), pa.int64()),
        "_seq": pa.array(range(1, len(rows) + 1), pa.int64()),
    }
    table = pa.table([*columns, *stamps.values()], names=[*relation.schema.names, *stamps])
    return table.cast(relation.schema.arrow_changes())


def _held(values: Sequence[Any], column: Column) -> pa.Array:
    """Values of either side in the column's form: the source shows a struct as a list of its fields."""
    return pa.array([_value(value, column.arrow) for value in values], column.arrow)


def _value(value: Any, held: pa.DataType) -> Any:
    if isinstance(value, list) and held in (INTERVAL, POINT):
        return {field.name: one for field, one in zip(held, value, strict=True)}
    if isinstance(value, list):
        return [_value(one, held.value_type) for one in value]
    return value


def told(found: Difference) -> str:
    """How a correction reads.

    >>> told(Difference("t", ((1,),), ((1,), (2,)), 2))
    'corrected: 1 row put in, 2 taken out'
    """
    rows = "row" if len(found.missing) == 1 else "rows"
    return f"corrected: {len(found.missing)} {rows} put in, {len(found.extra)} taken out"
