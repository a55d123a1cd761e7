"""Z-sets in Arrow: rows with an integer weight, where equal rows add up and weight 0 is absence.

Change rows carry the relation's own columns first, then the columns named here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.fitted import fitted
from penstock.nested import flat

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
    if any(pa.types.is_nested(rows.schema.field(name).type) for name in columns):
        return _consolidate_nested(rows, columns)
    summed = rows.select([*columns, WEIGHT]).group_by(list(columns), use_threads=False).aggregate([(WEIGHT, "sum")])
    schema = pa.schema([*(rows.schema.field(name) for name in columns), pa.field(WEIGHT, pa.int64())])
    summed = fitted(summed.rename_columns([*columns, WEIGHT]), schema)
    cancelled = pc.equal(summed[WEIGHT], 0)
    return summed.filter(pc.invert(cancelled)) if pc.any(cancelled).as_py() else summed


def _consolidate_nested(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The same by codes of the nested columns; each sum stands at the first of its rows."""
    keys = [flat(rows[name].combine_chunks()) for name in columns]
    numbered = pa.table([*keys, rows[WEIGHT], pa.array(np.arange(rows.num_rows))], [*columns, WEIGHT, "_row"])
    summed = numbered.group_by(list(columns), use_threads=False).aggregate([(WEIGHT, "sum"), ("_row", "min")])
    summed = summed.filter(pc.not_equal(summed[f"{WEIGHT}_sum"], 0))
    chosen = rows.select(list(columns)).take(summed["_row_min"])
    return chosen.append_column(pa.field(WEIGHT, pa.int64()), summed[f"{WEIGHT}_sum"])


def is_settled(raw: pa.Table) -> bool:
    """True for rows that were settled, and for captured ones that carry both images already and no TRUNCATE, which
    weighs nothing."""
    if ABSENT not in raw.column_names:
        return True
    return raw[ABSENT].null_count == raw.num_rows and not pc.any(pc.equal(raw[WEIGHT], 0)).as_py()


def key_ids(keys: pa.Table) -> npt.NDArray[np.int64]:
    """A number per row, equal for equal keys (NULL equals NULL)."""
    total = np.zeros(keys.num_rows, dtype=np.int64)
    for column in keys.columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        chunk = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        codes: npt.NDArray[np.int64] = chunk.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if len(keys.columns) == 1:
            return codes
        total = np.unique(total * (len(chunk.dictionary) + 1) + codes, return_inverse=True)[1].astype(np.int64)
    return total


def absent_mask(raw: pa.Table, width: int) -> npt.NDArray[np.bool_]:
    """Which values of which row the WAL did not carry, as a row × column mask."""
    encoded = raw[ABSENT].combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    patterns = np.zeros((len(encoded.dictionary) + 1, width), dtype=bool)
    for index, text in enumerate(encoded.dictionary.to_pylist()):
        patterns[index, [int(part) for part in text.split(",")]] = True
    codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy()
    return np.asarray(patterns[codes], dtype=bool)


def absent_texts(mask: npt.NDArray[np.bool_]) -> pa.Array:
    """The inverse of `absent_mask`: a text per row, NULL where nothing is absent. Patterns are few.

    >>> absent_texts(np.array([[False, True, True], [False, False, False]])).to_pylist()
    ['1,2', None]
    """
    if not mask.any():
        return pa.nulls(len(mask), pa.string())
    patterns, which = np.unique(np.packbits(mask, axis=1), axis=0, return_inverse=True)
    spelled = np.unpackbits(patterns, axis=1, count=mask.shape[1])
    texts = [",".join(map(str, np.flatnonzero(line))) or None for line in spelled]
    return pa.array(texts, pa.string()).take(pa.array(which.reshape(-1)))


def among(keys: pa.Table, wanted: pa.Table) -> pa.Array:
    """Which of `keys` are also in `wanted`, as a mask."""
    ids = key_ids(pa.concat_tables([keys, fitted(wanted, keys.schema)]))
    return pc.is_in(pa.array(ids[: keys.num_rows]), value_set=pa.array(ids[keys.num_rows :]))
