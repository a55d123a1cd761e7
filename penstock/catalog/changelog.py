"""The changelog as a whole: its size, segments dropped or put together, and rows of the catalog that are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from psycopg.rows import DictRow

from penstock.catalog.relations import record_segments
from penstock.catalog.store import Catalog, Commit, Question
from penstock.relation.segment import Segment

_BATCH = 10_000  # rows of the catalog that go in one statement
_HISTORY = 100  # lines of each stream table's history that stay, however old


@dataclass(frozen=True)
class Size:
    """Files and bytes of the changelog; `dropped` are on disk until nobody can be reading them."""

    segments: int
    rows: int
    bytes: int
    dropped_files: int
    dropped_bytes: int
    oldest: datetime | None

    @property
    def on_disk(self) -> int:
        return self.bytes + self.dropped_bytes


def size(catalog: Catalog) -> Size:
    row = catalog.one(
        "SELECT count(*) AS segments, coalesce(sum(rows), 0)::bigint AS rows, coalesce(sum(bytes), 0)::bigint AS bytes,"
        " min(first_time) AS oldest,"
        " (SELECT count(*) FROM dropped_files) AS dropped_files,"
        " (SELECT coalesce(sum(bytes), 0)::bigint FROM dropped_files) AS dropped_bytes "
        "FROM (SELECT rows, bytes, first_time FROM segments UNION ALL SELECT rows, bytes, NULL FROM copy_files) s"
    )
    return Size(**cast(DictRow, row))


def every_segment(catalog: Catalog) -> list[Segment]:
    """All files of the changelog, as they are needed."""
    rows = catalog.all(
        "SELECT path, rows, bytes, low, high, version, form, first_time, last_time, checksum, ranges FROM segments "
        "UNION ALL "
        "SELECT path, rows, bytes, low, high, version, form, first_time, last_time, checksum, ranges FROM copy_files "
        "ORDER BY path"
    )
    return [Segment.from_row(row) for row in rows]


LAST_CHANGES = Question(
    "SELECT r.id, s.name, greatest(r.retained, "
    "(SELECT min(from_position) FROM schema_versions v WHERE v.relation_id = r.id), "
    "(SELECT max(high) FROM segments g WHERE g.relation_id = r.id AND g.form = 'settled')) AS position "
    "FROM relations r JOIN sources s ON s.id = r.source_id "
    "WHERE NOT r.retired AND r.id IN (SELECT input_id FROM dependencies)",
    lambda rows: {row["id"]: (row["name"], row["position"]) for row in rows},
)
"""Of each table that a stream table reads, its source and the position of its last change that can be read.

Where changes are gone, or the table was copied again, it counts as changed up to there.
"""


def sizes(catalog: Catalog) -> dict[int, Size]:
    """By relation."""
    rows = catalog.all(
        "SELECT relation_id, count(*) AS segments, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes, "
        "min(first_time) AS oldest FROM segments GROUP BY relation_id"
    )
    return {row.pop("relation_id"): Size(**row, dropped_files=0, dropped_bytes=0) for row in rows}


def bases(catalog: Catalog) -> list[tuple[int, str, int | None]]:
    """Every relation, also what operators remember, with the position of its newest base."""
    rows = catalog.all(
        "SELECT r.id, r.name, max(b.position) AS position FROM relations r LEFT JOIN bases b ON b.relation_id = r.id "
        "WHERE NOT r.retired GROUP BY r.id, r.name ORDER BY r.name"
    )
    return [(row["id"], row["name"], row["position"]) for row in rows]


def too_young(catalog: Catalog, since: datetime) -> dict[int, int]:
    """For each relation the position before the first segment with a change from `since` on."""
    rows = catalog.all(
        "SELECT s.relation_id, min(s.low) - 1 AS position FROM segments s JOIN rounds r ON r.id = s.round "
        "WHERE s.form = 'settled' AND coalesce(s.last_time, r.committed_at) >= %s GROUP BY s.relation_id",
        since,
    )
    return {row["relation_id"]: row["position"] for row in rows}


def droppable(catalog: Catalog, keep: Mapping[int, int]) -> dict[int, int]:
    """Bytes of the settled segments of each relation up to the position in `keep`; only of those that have any."""
    rows = catalog.all(
        "SELECT s.relation_id, sum(s.bytes)::bigint AS bytes FROM segments s "
        "JOIN unnest(%s::int[], %s::bigint[]) k (relation_id, keep) USING (relation_id) "
        "WHERE s.form = 'settled' AND s.high <= k.keep GROUP BY s.relation_id",
        list(keep), list(keep.values()),
    )  # fmt: skip
    return {row["relation_id"]: row["bytes"] for row in rows}


def drop(commit: Commit, keep: Mapping[int, int]) -> None:
    """Forget the settled segments of each relation up to its position, and that it can be read before them."""
    commit.connection.execute(
        "WITH gone AS ("
        "  DELETE FROM segments s USING unnest(%s::int[], %s::bigint[]) k (relation_id, keep) "
        "  WHERE s.relation_id = k.relation_id AND s.form = 'settled' AND s.high <= k.keep "
        "  RETURNING s.relation_id, s.high) "
        "UPDATE relations r SET retained = greatest(retained, g.high) "
        "FROM (SELECT relation_id, max(high) AS high FROM gone GROUP BY relation_id) g WHERE r.id = g.relation_id",
        (list(keep), list(keep.values())),
    )


def replace(commit: Commit, relation_id: int, old: Sequence[Segment], new: Sequence[Segment]) -> bool:
    """Put `new` in the place of `old`, if all of `old` are still there."""
    gone = commit.connection.execute(
        "DELETE FROM segments WHERE relation_id = %s AND path = ANY(%s) AND form = 'settled' RETURNING path",
        (relation_id, [one.path for one in old]),
    ).fetchall()
    if len(gone) != len(old):
        return False
    record_segments(commit, relation_id, new)
    return True


def fragmented(catalog: Catalog, below: int, least: int) -> list[int]:
    """The relations with at least `least` settled segments under `below` bytes, most first."""
    rows = catalog.all(
        "SELECT relation_id FROM segments s JOIN relations r ON r.id = s.relation_id "
        "WHERE form = 'settled' AND bytes < %s AND NOT r.retired "
        "GROUP BY relation_id HAVING count(*) >= %s ORDER BY count(*) DESC",
        below, least,
    )  # fmt: skip
    return [row["relation_id"] for row in rows]


def prune(catalog: Catalog, before: datetime, keep: Mapping[int, int]) -> int:
    """Rows of the catalog from before a moment that nothing refers to; the number of them.

    A stream table keeps its frontiers from `keep` on and its newest, and the newest lines of its history. A relation
    keeps the newest base from before the moment, so that everything since can be read from one at or before it.
    """
    with catalog.connection.transaction():
        gone = catalog.connection.execute(
            "DELETE FROM frontiers f USING rounds r, unnest(%s::int[], %s::bigint[]) k (relation_id, keep) "
            "WHERE r.id = f.round AND r.committed_at < %s AND k.relation_id = f.relation_id AND f.round < k.keep "
            "AND f.round < (SELECT max(round) FROM frontiers n WHERE n.relation_id = f.relation_id)",
            (list(keep), list(keep.values()), before),
        ).rowcount
        gone += catalog.connection.execute(
            "WITH old AS ("
            "  DELETE FROM refresh_history h USING ("
            "    SELECT id, row_number() OVER (PARTITION BY relation_id ORDER BY id DESC) AS place FROM refresh_history"
            "  ) n WHERE n.id = h.id AND n.place > %s AND h.finished_at < %s "
            "  RETURNING h.relation_id, CASE WHEN h.error IS NULL THEN h.inserted - h.deleted ELSE 0 END AS rows), "
            "summed AS (SELECT relation_id, sum(rows)::bigint AS rows FROM old GROUP BY relation_id), "
            "kept AS (UPDATE stream_tables t SET rows_before = rows_before + s.rows FROM summed s "
            "         WHERE s.relation_id = t.relation_id) "
            "SELECT FROM old",
            (_HISTORY, before),
        ).rowcount
        gone += catalog.connection.execute(
            "DELETE FROM bases b USING rounds r WHERE r.id = b.round AND r.committed_at < %s AND EXISTS ("
            "  SELECT FROM bases n JOIN rounds m ON m.id = n.round "
            "  WHERE n.relation_id = b.relation_id AND n.position > b.position AND m.committed_at < %s)",
            (before, before),
        ).rowcount
        gone += catalog.connection.execute(
            "DELETE FROM rounds WHERE id IN (SELECT id FROM rounds r WHERE committed_at < %s "
            "AND NOT EXISTS (SELECT FROM segments WHERE round = r.id) "
            "AND NOT EXISTS (SELECT FROM copy_files WHERE round = r.id) "
            "AND NOT EXISTS (SELECT FROM bases WHERE round = r.id) "
            "AND NOT EXISTS (SELECT FROM frontiers WHERE round = r.id) "
            "AND NOT EXISTS (SELECT FROM refresh_history WHERE round = r.id) ORDER BY id LIMIT %s)",
            (before, _BATCH),
        ).rowcount
        gone += catalog.connection.execute(
            "DELETE FROM attempts WHERE id IN (SELECT id FROM attempts a WHERE started_at < %s AND state <> 'open' "
            "AND NOT EXISTS (SELECT FROM rounds WHERE attempt_id = a.id) "
            "AND NOT EXISTS (SELECT FROM segments WHERE attempt_id = a.id) "
            "AND NOT EXISTS (SELECT FROM copy_files WHERE attempt_id = a.id) ORDER BY id LIMIT %s)",
            (before, _BATCH),
        ).rowcount
        gone += catalog.connection.execute("DELETE FROM alerts WHERE cleared_at < %s", (before,)).rowcount
    return gone
