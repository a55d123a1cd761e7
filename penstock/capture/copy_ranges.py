"""How a table is cut into ranges that are copied apart from each other: every row is in exactly one of them.

From PostgreSQL 14 on a range is a run of blocks (`ctid` from one block up to another), before that a run of values of
a whole-number key, or the whole table. The first range has no lower end and the last one no upper end, so that
whatever a snapshot sees lies in one of them, also after the table has grown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from psycopg import sql

from penstock.capture.connection import Connection, translated
from penstock.capture.discover import SourceTable
from penstock.capture.leaves import read_leaves

_TURNS, _LEAST = 4, 4096  # ranges per worker, and blocks of a range, unless a range would be too large
BLOCKS = "ctid"  # `by` of a range of blocks
_TID_RANGE_SCANS = 140000
_WHOLE_NUMBERS = frozenset({20, 21, 23})
_SIZES = """
SELECT c.oid::int8, greatest(c.reltuples, 0)::int8, pg_relation_size(c.oid),
       current_setting('block_size')::int, COALESCE(pg_relation_filenode(c.oid)::int8, 0)::text
FROM pg_class c WHERE c.oid = ANY(%s)
"""
_LEAVES = """
SELECT c.oid::int8, greatest(c.reltuples, 0)::int8, pg_relation_size(c.oid),
       current_setting('block_size')::int
FROM pg_partition_tree(%s::oid::regclass) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf
"""


@dataclass(frozen=True)
class CopyRange:
    """Rows of a table whose `by` is at least `low` and below `high`; without ends it is all of them."""

    table: str
    number: int
    by: str = BLOCKS
    low: int | None = None
    high: int | None = None

    def condition(self) -> sql.Composable:
        """The range as a condition; TRUE for the whole table."""
        ends = [(">=", self.low), ("<", self.high)]
        terms = [
            sql.SQL("{} {} {}").format(sql.Identifier(self.by), sql.SQL(operator), self._end(value))
            for operator, value in ends
            if value is not None
        ]
        return sql.SQL(" AND ").join(terms) if terms else sql.SQL("true")

    def _end(self, value: int) -> sql.Composable:
        return sql.SQL("{}::tid").format(sql.Literal(f"({value},0)")) if self.by == BLOCKS else sql.Literal(value)


@dataclass(frozen=True)
class TableSize:
    """What the server knows of a table without reading it. `storage` changes when the table is rewritten."""

    rows: int
    bytes: int
    blocks: int  # of the largest part of a partitioned table
    storage: str


def table_sizes(connection: Connection, tables: Mapping[str, SourceTable]) -> dict[str, TableSize]:
    """Sizes and storage as they are now, whatever snapshot the connection has."""
    plain = {table.oid: name for name, table in tables.items() if not table.partitioned}
    with translated():
        found = {
            plain[oid]: TableSize(rows, size, -(-size // block), f"{oid}:{node}")
            for oid, rows, size, block, node in connection.execute(_SIZES, [list(plain)])
        }
        leaves_of = read_leaves(connection, [table.oid for table in tables.values() if table.partitioned])
        for name, table in tables.items():
            if table.partitioned:
                leaves = connection.execute(_LEAVES, [table.oid]).fetchall()
                found[name] = TableSize(
                    sum(leaf[1] for leaf in leaves),
                    sum(leaf[2] for leaf in leaves),
                    max((-(-leaf[2] // leaf[3]) for leaf in leaves), default=0),
                    ",".join([str(table.oid), *sorted(leaves_of[table.oid])]),
                )
    return found


def plan_ranges(
    connection: Connection, tables: Mapping[str, SourceTable], sizes: Mapping[str, TableSize], most: int, workers: int
) -> list[CopyRange]:
    """Ranges of at most `most` blocks, the tables' in the order of their names.

    A table is cut so finely that all workers are busy to the end, but not into ranges that hardly pay.
    """
    ranges: list[CopyRange] = []
    for name, table in tables.items():
        even = -(-sizes[name].blocks // (workers * _TURNS))
        blocks = min(most, max(even, _LEAST))
        parts = max(1, -(-sizes[name].blocks // blocks))
        if connection.info.server_version >= _TID_RANGE_SCANS:
            ranges += ranges_between(name, BLOCKS, [blocks * part for part in range(1, parts)])
        else:
            ranges += _key_ranges(connection, table, parts)
    return ranges


def ranges_between(table: str, by: str, inner: list[int]) -> list[CopyRange]:
    """
    >>> [(r.low, r.high) for r in ranges_between("t", "ctid", [10, 20])]
    [(None, 10), (10, 20), (20, None)]
    """
    ends = [None, *inner, None]
    return [CopyRange(table, number, by, *pair) for number, pair in enumerate(pairwise(ends))]


def _key_ranges(connection: Connection, table: SourceTable, parts: int) -> list[CopyRange]:
    key = table.schema.key[:1]
    if parts == 1 or not key or table.schema.column(key[0]).pg.oid not in _WHOLE_NUMBERS:
        return ranges_between(table.name, BLOCKS, [])
    bounds = sql.SQL("SELECT min({0})::int8, max({0})::int8 FROM {1}").format(
        sql.Identifier(key[0]), sql.Identifier(table.schema_name, table.table_name)
    )
    with translated():
        row = connection.execute(bounds).fetchone()
    if row is None or row[0] is None:
        return ranges_between(table.name, BLOCKS, [])
    return ranges_between(table.name, key[0], even_cuts(row[0], row[1], parts))


def even_cuts(low: int, high: int, parts: int) -> list[int]:
    """
    >>> even_cuts(1, 100, 4), even_cuts(5, 6, 4)
    ([26, 51, 76], [6])
    """
    cuts = {low + (high - low + 1) * part // parts for part in range(1, parts)}
    return sorted(cuts - {low})
