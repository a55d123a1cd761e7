"""A base's rows without Spark: its Parquet files read with pyarrow, rows that deletion vectors hide left out.

Looking up a few keys reads the key columns first, row group by row group where the statistics allow a hit, and the
other columns only for groups with hits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

Mask = npt.NDArray[np.bool_]


class BaseFiles:
    """The live files of one version of a Delta table."""

    def __init__(self, folder: Path, version: int) -> None:
        table = DeltaTable(str(folder), version=version)
        self._files = [_local(uri) for uri in table.file_uris()]
        vectors = pa.table(table.deletion_vectors())
        self._kept: dict[str, Mask] = {
            _local(path): vector.values.to_numpy(zero_copy_only=False)
            for path, vector in zip(vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True)
        }

    @property
    def paths(self) -> list[str]:
        return self._files

    @property
    def hidden_rows(self) -> int:
        """How many rows of the files are deleted."""
        return sum(int(np.count_nonzero(~kept)) for kept in self._kept.values())

    def hidden(self, schema: pa.Schema) -> pa.Table:
        """The rows of the files that are deleted."""
        parts = [
            _only(pq.read_table(file, columns=schema.names, partitioning=None), ~kept).cast(schema)
            for file, kept in self._kept.items()
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def rows(self, schema: pa.Schema) -> pa.Table:
        parts = [
            _with(pq.read_table(file, columns=schema.names, partitioning=None), self._mask(file, 0)).cast(schema)
            for file in self._files
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def lookup(self, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows whose key is among `keys` (a table of the key columns)."""
        parts = [part.cast(schema) for file in self._files for part in self._hits(file, keys, schema.names)]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def _hits(self, file: str, keys: pa.Table, names: Sequence[str]) -> Iterator[pa.Table]:
        reader = pq.ParquetFile(file)
        first = keys.column_names[0]
        low, high = (pc.min(keys[first]).as_py(), pc.max(keys[first]).as_py())
        offset = 0
        for group in range(reader.num_row_groups):
            meta = reader.metadata.row_group(group)
            if _may_hold(meta, first, low, high):
                found = reader.read_row_group(group, columns=keys.column_names)
                mask = _among(found.select(keys.column_names), keys)
                kept = self._mask(file, offset)
                if kept is not None:
                    mask &= _padded(kept, found.num_rows)
                if mask.any():
                    yield reader.read_row_group(group, columns=list(names)).select(list(names)).filter(pa.array(mask))
            offset += meta.num_rows

    def _mask(self, file: str, offset: int) -> Mask | None:
        kept = self._kept.get(file)
        return None if kept is None else kept[offset:]


@lru_cache(maxsize=256)
def base_files(folder: Path, version: int, relation_id: int) -> BaseFiles:
    """A version of a Delta table never changes, so its file list is read once; a relation made anew is another one."""
    return BaseFiles(folder, version)


def _local(uri: str) -> str:
    return uri.removeprefix("file://")


def _padded(mask: Mask, length: int) -> Mask:
    """A selection vector may end after the last hidden row: what follows is kept."""
    kept = np.ones(length, dtype=bool)
    size = min(length, len(mask))
    kept[:size] = mask[:size]
    return kept


def _only(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows.take(pa.array(np.flatnonzero(mask)))


def _with(rows: pa.Table, mask: Mask | None) -> pa.Table:
    return rows if mask is None else rows.filter(pa.array(_padded(mask, rows.num_rows)))


def _may_hold(meta: pq.RowGroupMetaData, column: str, low: object, high: object) -> bool:
    for index in range(meta.num_columns):
        chunk = meta.column(index)
        if chunk.path_in_schema == column:
            stats = chunk.statistics
            if stats is None or not stats.has_min_max or isinstance(low, (str, bytes)):
                return True  # text statistics may be truncated
            return bool(stats.min <= high and stats.max >= low)
    return True


def _among(rows: pa.Table, keys: pa.Table) -> Mask:
    """Which rows' key is in `keys`: each column by itself first, the combination only for what is left."""
    mask = np.ones(rows.num_rows, dtype=bool)
    for name in keys.column_names:
        values = keys[name].combine_chunks().cast(rows.schema.field(name).type)
        mask &= pc.is_in(rows[name], value_set=values).to_numpy(zero_copy_only=False)
    if len(keys.column_names) == 1 or not mask.any():
        return mask
    candidates = np.flatnonzero(mask)
    numbered = rows.take(pa.array(candidates)).append_column("_at", pa.array(candidates))
    wanted = keys.cast(rows.select(keys.column_names).schema)
    hits = numbered.join(wanted, keys=keys.column_names, join_type="left semi")["_at"].to_numpy()
    exact = np.zeros(rows.num_rows, dtype=bool)
    exact[hits] = True
    return exact
