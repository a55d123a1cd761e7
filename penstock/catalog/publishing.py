"""When relations are published, what waits for it, and what was done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import frontier_of
from penstock.cut import Frontier


@dataclass(frozen=True)
class Waiting:
    """A relation whose Delta table is behind: `pace` as it was set (None: the home's), `since` its last publish."""

    relation_id: int
    name: str
    pace: str | None
    since: datetime | None


@dataclass(frozen=True)
class PublishLine:
    """One line of the history."""

    name: str
    how: str
    reason: str
    rows: int
    version: int | None
    seconds: float
    frontier: Frontier | None
    error: str | None = None
    finished_at: datetime | None = None


def set_pace(catalog: Catalog, relation: str, pace: str | None) -> None:
    """None gives the choice back to the home's setting."""
    if pace is None:
        catalog.connection.execute("DELETE FROM publishing WHERE relation = %s", (relation,))
        return
    catalog.connection.execute(
        "INSERT INTO publishing (relation, pace) VALUES (%s, %s) ON CONFLICT (relation) DO UPDATE SET pace = %s",
        (relation, pace, pace),
    )


def pace_of(catalog: Catalog, relation: str) -> str | None:
    row = catalog.one("SELECT pace FROM publishing WHERE relation = %s", relation)
    return None if row is None else str(row["pace"])


def waiting(catalog: Catalog) -> list[Waiting]:
    """All that a publish would change, the longest unpublished first: one query, however many relations there are.

    A view waits also when only what its operators remember has changed. One that was never filled does not wait.
    """
    rows = catalog.all(
        """
        SELECT r.id AS relation_id, r.name, p.pace, b.since
        FROM relations r
        LEFT JOIN publishing p ON p.relation = r.name
        LEFT JOIN LATERAL (
            SELECT b.position, o.committed_at AS since FROM bases b JOIN rounds o ON o.id = b.round
            WHERE b.relation_id = r.id ORDER BY b.position DESC LIMIT 1) b ON true
        WHERE NOT r.retired AND r.kind <> 'state'
          AND (r.kind <> 'view' OR EXISTS (SELECT FROM frontiers f WHERE f.relation_id = r.id))
          AND (b.position IS NULL
               OR EXISTS (SELECT FROM segments s
                          WHERE s.relation_id = r.id AND s.form = 'settled' AND s.high > b.position)
               OR EXISTS (SELECT FROM relations o JOIN segments s ON s.relation_id = o.id
                          WHERE o.owner_id = r.id AND s.form = 'settled' AND s.high > b.position))
        ORDER BY b.since NULLS FIRST, r.name
        """
    )
    return [Waiting(**row) for row in rows]


@dataclass(frozen=True)
class Standing:
    """Where the Delta table of a relation is: `rows` in `version` since `published_at`, `behind` changed rows after it.

    `how`, `reason` and `seconds` are of the last publish that did something, `error` of one that failed since.
    """

    name: str
    pace: str | None
    version: int | None
    rows: int | None
    position: int | None
    published_at: datetime | None
    behind: int
    behind_since: datetime | None  # the first commit that waits
    how: str | None
    reason: str | None
    seconds: float | None
    error: str | None


def standing(catalog: Catalog) -> list[Standing]:
    """All relations, by name: one query."""
    rows = catalog.all(
        """
        SELECT r.name, p.pace, b.delta_version AS version, b.rows, b.position, b.published_at,
               w.behind, w.behind_since, h.how, h.reason, h.seconds, e.error
        FROM relations r
        LEFT JOIN publishing p ON p.relation = r.name
        LEFT JOIN LATERAL (
            SELECT b.position, b.delta_version, b.rows, o.committed_at AS published_at
            FROM bases b JOIN rounds o ON o.id = b.round
            WHERE b.relation_id = r.id ORDER BY b.position DESC LIMIT 1) b ON true
        LEFT JOIN LATERAL (
            SELECT coalesce(sum(s.rows), 0)::int8 AS behind, min(s.first_time) AS behind_since FROM segments s
            WHERE s.relation_id = r.id AND s.form = 'settled' AND s.high > coalesce(b.position, -1)) w ON true
        LEFT JOIN LATERAL (
            SELECT h.id, h.how, h.reason, h.seconds FROM publish_history h
            WHERE h.relation_id = r.id AND h.how NOT IN ('failed', 'optimized', 'vacuumed')
            ORDER BY h.id DESC LIMIT 1) h ON true
        LEFT JOIN LATERAL (
            SELECT f.error FROM publish_history f
            WHERE f.relation_id = r.id AND f.how = 'failed' AND f.id > coalesce(h.id, 0)
            ORDER BY f.id DESC LIMIT 1) e ON true
        WHERE NOT r.retired AND r.kind <> 'state'
        ORDER BY r.name
        """
    )
    return [Standing(**row) for row in rows]


def record(catalog: Catalog, relation_id: int, line: PublishLine) -> None:
    catalog.connection.execute(
        "INSERT INTO publish_history (relation_id, how, reason, rows, version, seconds, frontier, error) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        (
            relation_id, line.how, line.reason, line.rows, line.version, line.seconds,
            None if line.frontier is None else str(line.frontier), line.error,
        ),
    )  # fmt: skip


def history(catalog: Catalog, relation_id: int, limit: int = 100) -> list[PublishLine]:
    """Newest first."""
    rows = catalog.all(
        "SELECT r.name, h.how, h.reason, h.rows, h.version, h.seconds, h.frontier, h.error, h.finished_at "
        "FROM publish_history h JOIN relations r ON r.id = h.relation_id "
        "WHERE h.relation_id = %s ORDER BY h.id DESC LIMIT %s",
        relation_id, limit,
    )  # fmt: skip
    return [PublishLine(**{**row, "frontier": frontier_of(row["frontier"])}) for row in rows]


def last(catalog: Catalog, relation_id: int, how: str) -> datetime | None:
    """When something was last done to a relation."""
    row = catalog.one(
        "SELECT max(finished_at) AS at FROM publish_history WHERE relation_id = %s AND how = %s", relation_id, how
    )
    return None if row is None else row["at"]
