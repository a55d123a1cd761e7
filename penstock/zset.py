"""Z-sets in Arrow: rows with an integer weight, where equal rows add up and weight 0 is absence.

Change rows carry the relation's own columns first, then the columns named here.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

WEIGHT = "_weight"

# What a captured change knows beside the row: how it came to be, and where its transaction committed.
CHANGE_FIELDS: tuple[pa.Field, ...] = (
    pa.field(WEIGHT, pa.int64(), nullable=False),
    pa.field("_op", pa.string(), nullable=False),  # R copied, I insert, U update, D delete, T truncate
    pa.field("_lsn", pa.int64(), nullable=False),  # end LSN of the commit
    pa.field("_ts", pa.timestamp("us", tz="UTC")),  # commit time
    pa.field("_xid", pa.int64()),
    pa.field("_seq", pa.int64(), nullable=False),  # order inside the transaction
)
CHANGE_COLUMNS = tuple(field.name for field in CHANGE_FIELDS)

# Only in changes as captured, before settling: positions of columns whose value the WAL did not carry, as "1,4".
ABSENT = "_absent"
RAW_FIELDS: tuple[pa.Field, ...] = (*CHANGE_FIELDS, pa.field(ABSENT, pa.string()))


def consolidate(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Sum the weights of equal rows and drop what cancels: `columns` and the weight, nothing else.

    >>> t = pa.table({"a": [1, 1, None, 2], "_weight": [1, -1, 1, 1]})
    >>> consolidate(t, ["a"]).sort_by("a").to_pydict()
    {'a': [2, None], '_weight': [1, 1]}
    """
    if not columns:
        total = pc.sum(rows[WEIGHT]).as_py() or 0
        return pa.table({WEIGHT: pa.array([total] if total else [], pa.int64())})
    summed = rows.select([*columns, WEIGHT]).group_by(list(columns), use_threads=False).aggregate([(WEIGHT, "sum")])
    summed = summed.rename_columns([*columns, WEIGHT])
    return summed.filter(pc.not_equal(summed[WEIGHT], 0)).cast(
        pa.schema([*(rows.schema.field(name) for name in columns), pa.field(WEIGHT, pa.int64())])
    )


def is_settled(raw: pa.Table) -> bool:
    """True for captured rows that carry both images already and no TRUNCATE."""
    return raw[ABSENT].null_count == raw.num_rows and not pc.any(pc.equal(raw["_op"], "T")).as_py()
