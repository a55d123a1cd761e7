"""The rows of some keys in segments, reading as little as it takes.

A segment whose key range holds none of them is not opened; of the others the key columns are read first, row group by
row group where the statistics allow a hit, and the rest only for groups with hits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.fitted import fitted
from penstock.relation import segment
from penstock.relation.description import Ranges, ranges_of
from penstock.relation.home import Home
from penstock.relation.segment import Segment
from penstock.zset import among

_SMALL = 1 << 20  # bytes up to which a file is read whole: looking inside costs more
_TOGETHER = 8 << 20  # bytes of such files that are looked through at once


def may_hold(ranges: Ranges, keys: pa.Table) -> bool:
    """False where the ranges say that none of the keys is there; a key with a NULL may be anywhere.

    >>> keys = pa.table({"a": [5, 50], "b": [1, 9]})
    >>> may_hold({"a": (1, 9)}, keys), may_hold({"a": (6, 9)}, keys), may_hold({"a": (1, 9), "b": (5, 9)}, keys)
    (True, False, False)
    """
    possible = None
    for name in keys.column_names:
        values = keys[name]
        if name in ranges and pa.types.is_integer(values.type):
            low, high = ranges[name]
            inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)).fill_null(True)
            possible = inside if possible is None else pc.and_(possible, inside)
    return possible is None or bool(pc.any(possible).as_py())


def candidates(segments: Sequence[Segment], keys: pa.Table) -> list[Segment]:
    """The segments that may hold a row of the keys."""
    return [one for one in segments if may_hold(one.ranges, keys)]


def find(
    home: Home, segments: Sequence[Segment], schema: pa.Schema, keys: pa.Table, *, after: int, until: int
) -> pa.Table:
    """The rows of `keys` (a table of the key columns) in (`after`, `until`], as `schema`."""
    parts = [schema.empty_table()]
    whole: list[Segment] = []
    for one in candidates(segments, keys):
        if one.bytes <= _SMALL or one.low <= after or one.high > until:
            whole.append(one)
        else:
            parts += _hits(home.path(one.path), schema, keys)
    for some in segment.bounded(whole, lambda one: one.bytes, _TOGETHER):
        rows = segment.read(home, some, schema, after=after, until=until)
        parts.append(rows.filter(among(rows.select(keys.column_names), keys)))
    return pa.concat_tables(parts)


def _hits(path: Path, schema: pa.Schema, keys: pa.Table) -> Iterator[pa.Table]:
    names = keys.column_names
    footer = _footer(path)
    with pq.ParquetFile(path, metadata=footer) as file:
        for group in range(footer.num_row_groups):
            if may_hold(ranges_of(footer, group), keys):
                found = file.read_row_group(group, columns=names).select(names)
                mask = among(fitted(found, keys.schema), keys)
                if pc.any(mask).as_py():
                    yield (
                        file.read_row_group(group, columns=schema.names).select(schema.names).filter(mask).cast(schema)
                    )


@lru_cache(maxsize=1024)
def _footer(path: Path) -> pq.FileMetaData:
    """A segment never changes."""
    return pq.read_metadata(path)
