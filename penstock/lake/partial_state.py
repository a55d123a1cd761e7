"""The rows of a relation at a position that have given values in some columns, in memory, without Spark.

The part of base(c0) + changes(c0, c] that has those values. As in the whole state, rows are weighted and not netted;
all rows of a wanted value are there, whatever their weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.relations import Relation
from penstock.lake.base_files import BaseFiles, among_any
from penstock.lake.reader import SCANNED, SMALL, Reader
from penstock.relation.segment import rows_with_weight
from penstock.zset import WEIGHT


def partial_state(
    reader: Reader, relation: Relation, position: int, columns: Sequence[str], wanted: Sequence[pa.Table]
) -> pa.Table | None:
    """Weighted rows that equal a row of one of the `wanted` tables in its columns, NULL equal to NULL.

    None where Spark should read the state: too many rows to look through, to look for, or to give back.
    """
    base = reader.base(relation)
    low, high = sorted((base.position if base else -1, position))
    if sum(keys.num_rows for keys in wanted) > SMALL or reader.changed_rows(relation, low, high) > SMALL:
        return None
    changed = reader.changes_arrow(relation, low, high, columns)
    parts = [changed.filter(pa.array(among_any(changed, wanted)))]
    if base and position < base.position:
        parts[0] = parts[0].set_column(len(columns), WEIGHT, pc.negate(parts[0][WEIGHT]))
    if base:
        shape = relation.schema.arrow(columns)
        names = {*columns, *(name for values in wanted for name in values.column_names)}
        if not names <= reader.from_version(relation, base.version).identical:
            return None
        there = _from_base(reader.base_files(relation, base), shape, wanted)
        if there is None:
            return None
        parts.append(there)
    schema = rows_with_weight(relation.schema, columns)
    whole = pa.concat_tables([part.cast(schema) for part in parts])
    return whole if whole.num_rows <= SMALL else None


def _from_base(files: BaseFiles, schema: pa.Schema, wanted: Sequence[pa.Table]) -> pa.Table | None:
    if not files.holds(schema) or files.may_match(wanted) > SCANNED:
        return None
    rows = files.matching(wanted, schema, limit=SMALL)
    if rows is None:
        return None
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))
