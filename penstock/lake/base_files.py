"""A base's rows without Spark: its Parquet files read with pyarrow, rows that deletion vectors hide left out.

Columns are asked for by the names of that version of the table. A file may have a column under another name (one that
was renamed since), or not at all (one that was added since, where its rows have NULL).
Looking up a few keys reads the key columns first, row group by row group where the statistics allow a hit, and the
other columns only for groups with hits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from penstock.fitted import fitted
from penstock.lake.hot_columns import HOT
from penstock.relation.recent_files import RECENT
from penstock.zset import key_ids

Mask = npt.NDArray[np.bool_]

_AT_ONCE = 4  # row groups from which it pays to look into them side by side
_THREADS = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="lookup")


class BaseFiles:
    """The live files of one version of a Delta table."""

    looked_at: ClassVar[int] = 0  # rows whose keys were read to find others, in all tables, for those who measure

    def __init__(self, folder: Path, version: int) -> None:
        table = DeltaTable(str(folder), version=version)
        self._files = [_local(uri) for uri in table.file_uris()]
        self._footers: dict[str, pq.FileMetaData] = {}
        mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
        self._physical = {
            field.name: str(field.metadata.get("delta.columnMapping.physicalName", field.name))
            for field in (table.schema().fields if mapped else ())
        }
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

    def physical(self, name: str) -> str:
        """The name of a column inside the files."""
        return self._physical.get(name, name)

    def hidden(self, schema: pa.Schema) -> pa.Table:
        """The rows of the files that are deleted."""
        parts = [_only(self._read(file, schema), ~kept) for file, kept in self._kept.items()]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def rows(self, schema: pa.Schema) -> pa.Table:
        parts = [_with(self._read(file, schema), self._mask(file, 0)) for file in self._files]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def parts(self, schema: pa.Schema) -> Iterator[Callable[[], pa.Table]]:
        """The rows in parts of a row group each, read when called, in any thread."""
        for file in self._files:
            offset = 0
            footer = self._footer(file)
            for group in range(footer.num_row_groups):
                yield partial(self._part, file, group, offset, schema)
                offset += footer.row_group(group).num_rows

    def _part(self, file: str, group: int, offset: int, schema: pa.Schema) -> pa.Table:
        there = self._there(file, schema.names)
        footer = self._footer(file)
        with pq.ParquetFile(file, metadata=footer) as reader:
            rows = reader.read_row_group(group, columns=[self.physical(name) for name in there], use_threads=False)
        shaped = _in_shape(rows, self._logical(rows, there), schema, footer.row_group(group).num_rows)
        return _with(shaped, self._mask(file, offset))

    def _read(self, file: str, schema: pa.Schema) -> pa.Table:
        there = self._there(file, schema.names)
        rows = pq.read_table(file, columns=[self.physical(name) for name in there], partitioning=None)
        return _in_shape(rows, self._logical(rows, there), schema, self._footer(file).num_rows)

    def _there(self, file: str, names: Sequence[str]) -> list[str]:
        """Those of the columns that the file has."""
        inside = set(self._footer(file).schema.to_arrow_schema().names)
        return [name for name in names if self.physical(name) in inside]

    def lookup(self, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows whose key is among `keys` (a table of the key columns)."""
        found = self.matching([keys], schema)
        assert found is not None
        return found

    def may_match(self, wanted: Sequence[pa.Table]) -> int:
        """How many rows `matching` would look at."""
        return sum(
            footer.row_group(group).num_rows
            for footer in map(self._footer, self._files)
            for group in range(footer.num_row_groups)
            if self._may_hold_any(footer.row_group(group), wanted)
        )

    def holds(self, schema: pa.Schema) -> bool:
        """True where every file has these columns in these types: not if it was written in an earlier shape."""
        shapes = [self._footer(file).schema.to_arrow_schema() for file in self._files]
        fields = [(self.physical(field.name), field.type) for field in schema]
        return all(
            shape.get_field_index(name) >= 0 and shape.field(name).type == kind
            for shape in shapes
            for name, kind in fields
        )

    def matching(self, wanted: Sequence[pa.Table], schema: pa.Schema, limit: int | None = None) -> pa.Table | None:
        """The rows equal to a row of one of the tables in all of its columns, NULL equal to NULL; None if they are
        more than `limit`."""
        parts, count = [schema.empty_table()], 0
        for file in self._files:
            for part in self._hits(file, wanted, schema):
                count += part.num_rows
                if limit is not None and count > limit:
                    return None
                parts.append(part)
        return pa.concat_tables(parts)

    def _hits(self, file: str, wanted: Sequence[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
        footer = self._footer(file)
        keys = list(dict.fromkeys(name for table in wanted for name in table.column_names))
        there = self._there(file, list(dict.fromkeys([*keys, *schema.names])))
        if missing := [name for name in keys if name not in there]:
            raise KeyError(f"{file} has no column {', '.join(missing)}")
        if not any(self._may_hold_any(footer.row_group(group), wanted) for group in range(footer.num_row_groups)):
            return
        if (whole := RECENT.small(Path(file), [self.physical(name) for name in there])) is not None:
            yield from self._hits_in(whole.rename_columns(there), file, wanted, schema)
            return
        groups, offset = list[tuple[int, int]](), 0
        for group in range(footer.num_row_groups):
            meta = footer.row_group(group)
            if self._may_hold_any(meta, wanted):
                BaseFiles.looked_at += meta.num_rows
                groups.append((group, offset))
            offset += meta.num_rows
        others = [name for name in there if name not in keys]
        look = partial(self._hits_of, file, wanted, schema, keys, others)
        found = map(look, groups) if len(groups) < _AT_ONCE else _THREADS.map(look, groups)
        yield from (rows for rows in found if rows is not None)

    def _hits_of(
        self, file: str, wanted: Sequence[pa.Table], schema: pa.Schema, keys: list[str], others: list[str],
        where: tuple[int, int],
    ) -> pa.Table | None:  # fmt: skip
        """The hits of one row group, in any thread."""
        group, offset = where
        found = pa.table({name: self._column(file, group, name) for name in keys})
        hits = pa.array(np.flatnonzero(self._live(among_any(found, wanted), file, offset)))
        if not len(hits):
            return None
        rows = found.take(hits)
        for name in others:
            rows = rows.append_column(name, self._column(file, group, name).take(hits))
        return _in_shape(rows, rows.column_names, schema, rows.num_rows)

    def _column(self, file: str, group: int, name: str) -> pa.ChunkedArray:
        """One column of a row group, which stays in memory while that saves time."""
        column = self.physical(name)

        def read() -> pa.ChunkedArray:
            with pq.ParquetFile(file, metadata=self._footer(file)) as reader:
                return reader.read_row_group(group, columns=[column], use_threads=False)[column]

        return HOT.column((file, group, column), read)

    def _hits_in(self, rows: pa.Table, file: str, wanted: Sequence[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
        """The same in a file that is in memory."""
        BaseFiles.looked_at += rows.num_rows
        hits = np.flatnonzero(self._live(among_any(rows, wanted), file, 0))
        if len(hits):
            yield _in_shape(rows.take(pa.array(hits)), rows.column_names, schema, len(hits))

    def _live(self, mask: Mask, file: str, offset: int) -> Mask:
        """Those of the rows from `offset` on that are not deleted."""
        kept = self._mask(file, offset)
        return mask if kept is None else mask & _padded(kept, len(mask))

    def _logical(self, rows: pa.Table, names: Sequence[str]) -> list[str]:
        """The names of columns that were read by their names inside the file, in whatever order they came."""
        known = {self.physical(name): name for name in names}
        return [known[name] for name in rows.column_names]

    def _may_hold_any(self, meta: pq.RowGroupMetaData, wanted: Sequence[pa.Table]) -> bool:
        return any(
            all(_may_hold(meta, self.physical(name), keys[name]) for name in keys.column_names) for keys in wanted
        )

    def _footer(self, file: str) -> pq.FileMetaData:
        if file not in self._footers:
            self._footers[file] = pq.read_metadata(file)
        return self._footers[file]

    def _mask(self, file: str, offset: int) -> Mask | None:
        kept = self._kept.get(file)
        return None if kept is None else kept[offset:]


@lru_cache(maxsize=256)
def base_files(folder: Path, version: int, relation_id: int) -> BaseFiles:
    """A version of a Delta table never changes, so its file list is read once; a relation made anew is another one."""
    return BaseFiles(folder, version)


def _in_shape(rows: pa.Table, names: Sequence[str], schema: pa.Schema, count: int) -> pa.Table:
    """Columns `names` as `schema` has them; what is not among them is NULL."""
    found = dict(zip(names, rows.columns, strict=True))
    arrays = [found[f.name].cast(f.type) if f.name in found else pa.nulls(count, f.type) for f in schema]
    return pa.table(arrays, schema=schema)


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


def _may_hold(meta: pq.RowGroupMetaData, column: str, keys: pa.ChunkedArray) -> bool:
    """False where the statistics say that none of the keys is in the row group. Only integers are compared: texts may
    be truncated there, and of NULLs, when asked for, the statistics need not tell the number."""
    if not pa.types.is_integer(keys.type) or keys.null_count:
        return True
    for index in range(meta.num_columns):
        chunk = meta.column(index)
        if chunk.path_in_schema == column:
            stats = chunk.statistics
            if stats is None or not stats.has_min_max:
                return True
            return bool(pc.any(pc.and_(pc.greater_equal(keys, stats.min), pc.less_equal(keys, stats.max))).as_py())
    return True


def among_any(rows: pa.Table, wanted: Sequence[pa.Table]) -> Mask:
    """Which rows equal, in all columns of one of the tables, a row of it; NULL equals NULL."""
    mask = np.zeros(rows.num_rows, dtype=bool)
    for keys in wanted:
        mask |= _among(rows.select(keys.column_names), keys)
    return mask


def _among(rows: pa.Table, keys: pa.Table) -> Mask:
    """Each column by itself first, the combination only for what is left."""
    wanted = fitted(keys, pa.schema([(name, rows.schema.field(name).type) for name in keys.column_names]))
    mask = np.ones(rows.num_rows, dtype=bool)
    for name in keys.column_names:
        values = wanted[name].combine_chunks()
        mask &= pc.is_in(rows[name], value_set=values).to_numpy(zero_copy_only=False)
    if len(keys.column_names) == 1 or not mask.any():
        return mask
    candidates = np.flatnonzero(mask)
    found = fitted(rows.take(pa.array(candidates)), wanted.schema)
    ids = key_ids(pa.concat_tables([found, wanted]))
    mask[candidates] = np.isin(ids[: len(candidates)], ids[len(candidates) :])
    return mask
