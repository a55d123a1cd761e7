"""A table or a query in the source at one exact LSN, as verify sees it: hashes added up in PostgreSQL, range by range.

Every range is a statement, and a transaction, of its own under the exported snapshot: no lock outlives a range, so
whoever wants to TRUNCATE or ALTER a table waits for one of them at most. The price is that a table may be rewritten
between the snapshot and a range, and then looks empty to the snapshot (TRUNCATE and rewriting ALTERs are not
MVCC-safe). That is recognised by its file: `Rewritten`, and the caller looks again under a newer snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from psycopg import errors as pg
from psycopg import sql

from penstock.capture.connection import Connection, translate
from penstock.capture.copy_ranges import ranges_between
from penstock.capture.source_at import SourceAt
from penstock.refresh.bucket_sums import BucketSums
from penstock.refresh.held import as_held
from penstock.refresh.row_hash import expression, mixed
from penstock.refresh.verification import Row
from penstock.relation.schema import Column

Counted = Callable[[int], None]
_TID_RANGE_SCANS = 140000
_RANGE_BYTES = 256 << 20
_FILES = """
WITH RECURSIVE parts AS (
  SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname || '.' || c.relname = ANY(%s)
  UNION SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid)
SELECT c.oid::int8, c.relkind::text, c.relfilenode::int8, COALESCE(pg_relation_filenode(c.oid)::int8, -1),
       COALESCE(pg_relation_size(c.oid), 0), current_setting('block_size')::int
FROM pg_class c JOIN parts p ON p.oid = c.oid WHERE c.relkind IN ('r', 'p')
"""
_CHANGED = (pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedObject, pg.WrongObjectType, pg.DatatypeMismatch)


class Rewritten(Exception):
    """A table was truncated or rewritten, or changed its shape, after the snapshot: it cannot be read under it."""

    def __init__(self, tables: Sequence[str]) -> None:
        super().__init__(", ".join(tables))
        self.tables = tuple(tables)


@dataclass(frozen=True)
class SourceSide:
    """The rows of `source` (what follows FROM) with `condition`; `tables` are all that it reads, as schema.table.

    `ranged` is whether it is one table, which is then read in ranges of blocks by as many connections as `there` has.
    """

    there: SourceAt
    source: sql.Composed
    condition: sql.Composed
    columns: tuple[Column, ...]
    hashed: tuple[Column, ...]
    tables: tuple[str, ...]
    ranged: bool

    def sums(self, buckets: int, counted: Counted) -> BucketSums:
        query = sql.SQL(
            "SELECT (x & {})::int, count(*), sum({}) "
            "FROM (SELECT {} AS x FROM {} WHERE {} AND {} OFFSET 0) AS rows GROUP BY 1"
        )
        total = BucketSums.empty(buckets)

        def one(condition: sql.Composable) -> list[Row]:
            text = query.format(
                sql.Literal(buckets - 1), mixed(sql.Identifier("x")), expression(self.hashed), self.source,
                self.condition, condition,
            )  # fmt: skip
            return self._read(text)

        with ThreadPoolExecutor(self.there.workers, thread_name_prefix="penstock-verify") as pool:
            for found in pool.map(one, self._ranges()):
                for bucket, count, hashed in found:
                    total.add_bucket(bucket, count, int(hashed))
                counted(sum(row[1] for row in found))
        return total

    def rows(self, buckets: Sequence[int], of: int) -> list[Row]:
        """The rows of some buckets."""
        columns = sql.SQL(", ").join(map(as_held, self.columns))
        chosen: sql.Composable = sql.SQL("true")
        if of > 1:
            chosen = sql.SQL("(({}) & {}) = ANY({})").format(
                expression(self.hashed), sql.Literal(of - 1), sql.Literal(list(buckets))
            )
        text = sql.SQL("SELECT {} FROM {} WHERE {} AND {}").format(columns, self.source, self.condition, chosen)
        return self._read(text)

    def _read(self, query: sql.Composed) -> list[Row]:
        """The rows of a query, once it is sure that the snapshot sees the tables as they were."""
        with self.there.transaction() as connection:
            try:
                found = connection.execute(query).fetchall()
                self._check(connection)
            except _CHANGED as error:
                raise Rewritten(self.tables) from error
            except pg.Error as error:
                raise translate(error) from error
        return found

    def _check(self, connection: Connection) -> None:
        """The catalog's rows are those of the snapshot, the functions tell what is there now."""
        for _, kind, then, now, _, _ in connection.execute(_FILES, [list(self.tables)]):
            if kind == "r" and then != now:
                raise Rewritten(self.tables)

    def _ranges(self) -> Iterator[sql.Composable]:
        if not self.ranged or self.there.version < _TID_RANGE_SCANS:
            yield sql.SQL("true")
            return
        with self.there.transaction() as connection:
            found = connection.execute(_FILES, [list(self.tables)]).fetchall()
        size, block = max(((row[4], row[5]) for row in found), default=(0, 8192))
        blocks = _RANGE_BYTES // block
        inner = list(range(blocks, size // block + 1, blocks))
        for one in ranges_between(self.tables[0], "ctid", inner):
            yield one.condition()
