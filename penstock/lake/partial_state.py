"""The rows of a relation at a position that have given values in some columns, or all if few, in memory, without Spark.

The part of base(c0) + changes(c0, c] that has those values. As in the whole state, rows are weighted, and their sum
is not netted; all rows of a wanted value are there, whatever their weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.relations import Relation
from penstock.fitted import fitted
from penstock.lake.base_files import BaseFiles, among_any
from penstock.lake.reader import GATHERED, SCANNED, Reader
from penstock.relation.segment import rows_with_weight
from penstock.zset import WEIGHT, consolidate


def partial_state(
    reader: Reader, relation: Relation, position: int, columns: Sequence[str], wanted: Sequence[pa.Table]
) -> pa.Table | None:
    """Weighted rows that equal a row of one of the `wanted` tables in its columns, NULL equal to NULL.

    None where Spark should read the state: too many rows to look through, to look for, or to give back.
    """
    if sum(keys.num_rows for keys in wanted) > GATHERED:
        return None
    names = {*columns, *(name for values in wanted for name in values.column_names)}
    return _state(
        reader, relation, position, columns, names,
        changed=lambda low, high: _from_changes(reader, relation, low, high, columns, wanted),
        base=lambda files, shape: _from_base(files, shape, wanted),
    )  # fmt: skip


def whole_state(reader: Reader, relation: Relation, position: int, columns: Sequence[str]) -> pa.Table | None:
    """All weighted rows; None if they are not few, or only their number matters: a table of no columns has no rows."""
    base = reader.base(relation)
    if not columns or (base and base.rows > GATHERED):
        return None
    return _state(
        reader, relation, position, columns, {*columns},
        changed=lambda low, high: reader.changes_arrow(relation, low, high, columns),
        base=lambda files, shape: files.rows(shape) if files.holds(shape) else None,
    )  # fmt: skip


def _state(
    reader: Reader, relation: Relation, position: int, columns: Sequence[str], names: AbstractSet[str], *,
    changed: Callable[[int, int], pa.Table], base: Callable[[BaseFiles, pa.Schema], pa.Table | None],
) -> pa.Table | None:  # fmt: skip
    """What is taken of the changes and of the base, which has all of the `names` as they are now."""
    there = reader.base(relation)
    low, high = sorted((there.position if there else -1, position))
    if reader.changed_rows(relation, low, high) > GATHERED:
        return None
    parts = [changed(low, high)]
    if there and position < there.position:
        parts[0] = parts[0].set_column(len(columns), WEIGHT, pc.negate(parts[0][WEIGHT]))
    if there:
        if not names <= reader.from_version(relation, there.version).identical:
            return None
        rows = base(reader.base_files(relation, there), relation.schema.arrow(columns))
        if rows is None:
            return None
        parts.append(rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)))
    schema = rows_with_weight(relation.schema, columns)
    whole = pa.concat_tables([fitted(part, schema) for part in parts])
    return whole if whole.num_rows <= GATHERED else None


def _from_changes(
    reader: Reader, relation: Relation, low: int, high: int, columns: Sequence[str], wanted: Sequence[pa.Table]
) -> pa.Table:
    """Adding up all changes takes longer than picking the wanted ones out of them and adding up these."""
    rows = reader.kept_changes(relation, low, high)
    if rows is None:
        rows = reader.changes_arrow(relation, low, high, columns)
    found = rows.filter(pa.array(among_any(rows, wanted)))
    return consolidate(found, columns) if found.num_rows else found.select([*columns, WEIGHT])


def _from_base(files: BaseFiles, schema: pa.Schema, wanted: Sequence[pa.Table]) -> pa.Table | None:
    if not files.holds(schema) or files.may_match(wanted) > SCANNED:
        return None
    return files.matching(wanted, schema, limit=GATHERED)
