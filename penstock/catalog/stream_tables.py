"""Stream tables, what they depend on, the frontiers they reached and the history of their refreshes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import LiteralString, cast

from psycopg.rows import DictRow

from penstock.catalog.store import ROUND, Catalog, Commit, Question
from penstock.cut import Frontier
from penstock.errors import NotFound
from penstock.relation.schema import Schema


@dataclass(frozen=True)
class StreamTable:
    """A stream table with the round and frontier of its last refresh (None before the first)."""

    relation_id: int
    name: str
    query: str
    dialect: str
    mode: str
    schedule: str | None
    status: str
    round: int | None
    frontier: Frontier | None
    inputs: tuple[int, ...]
    status_reason: str | None = None  # why it is not refreshed any more
    suspended_by: str | None = None  # "hand", or "inputs" that it does not fit
    written: str = ""  # the query as it was given; `query` has the views of the source in their places
    source_views: Mapping[str, str] = field(default_factory=dict)  # those views, as they were defined then
    cdc_mode: str | None = None
    consecutive_errors: int = 0
    reinit_reason: str | None = None  # why its next refresh computes it anew
    tried_at: datetime | None = None  # when its last refresh began, whatever became of it
    retry_at: datetime | None = None  # not before, after an error


@dataclass(frozen=True)
class Refreshed:
    """One line of the refresh history."""

    name: str
    action: str
    reason: str
    inserted: int
    deleted: int
    seconds: float
    frontier: Frontier | None
    error: str | None = None
    finished_at: datetime | None = None
    changed_rows: int | None = None  # of its inputs, where they were counted
    initiated_by: str = "MANUAL"  # or SCHEDULER, INITIAL
    round: int | None = None


_SELECT = """
    SELECT t.relation_id, r.name, t.query, t.dialect, t.mode, t.schedule, t.status, t.status_reason, t.suspended_by,
           t.written, t.source_views, t.cdc_mode, t.consecutive_errors, t.reinit_reason, t.tried_at, t.retry_at,
           f.round, f.frontier,
           array(SELECT input_id FROM dependencies d WHERE d.view_id = t.relation_id ORDER BY input_id) AS inputs
    FROM stream_tables t JOIN relations r ON r.id = t.relation_id
    LEFT JOIN LATERAL (SELECT round, frontier FROM frontiers WHERE relation_id = t.relation_id
                       ORDER BY round DESC LIMIT 1) f ON true
"""


def frontier_of(value: object) -> Frontier | None:
    return None if value is None else Frontier.parse(json.dumps(value))


def _stream_table(row: DictRow) -> StreamTable:
    return StreamTable(**{**row, "frontier": frontier_of(row["frontier"]), "inputs": tuple(row["inputs"])})


EVERY = Question(_SELECT + " ORDER BY r.name", lambda rows: [_stream_table(row) for row in rows])


def every(catalog: Catalog) -> list[StreamTable]:
    return catalog.answer(EVERY)


def lookup(catalog: Catalog, name: str) -> StreamTable | None:
    row = catalog.one(_SELECT + " WHERE r.name = %s", name)
    return None if row is None else _stream_table(row)


def get(catalog: Catalog, name: str) -> StreamTable:
    found = lookup(catalog, name)
    if found is None:
        known = ", ".join(table.name for table in every(catalog)) or "none yet"
        raise NotFound(f"no stream table {name!r}", hint=f"Known stream tables: {known}.")
    return found


@dataclass(frozen=True)
class Dependency:
    """What a stream table reads of an input: the columns, and the shape that the input had when it was defined."""

    columns: tuple[str, ...]
    shape: Schema


def dependencies(catalog: Catalog, view_id: int) -> dict[int, Dependency]:
    """By input."""
    rows = catalog.all("SELECT input_id, columns, shape::text FROM dependencies WHERE view_id = %s", view_id)
    return {row["input_id"]: Dependency(tuple(row["columns"]), Schema.from_json(row["shape"])) for row in rows}


def set_status(
    where: Commit | Catalog, relation_id: int, status: str, reason: str | None = None, by: str | None = None
) -> None:
    """Put a stream table into a state; `by` says who suspended it."""
    where.connection.execute(
        "UPDATE stream_tables SET status = %s, status_reason = %s, suspended_by = %s WHERE relation_id = %s",
        (status, reason, by, relation_id),
    )


def forgive(where: Commit | Catalog, relation_id: int) -> None:
    """Errors so far do not count any more."""
    where.connection.execute(
        "UPDATE stream_tables SET consecutive_errors = 0, retry_at = NULL WHERE relation_id = %s", (relation_id,)
    )


def count_error(where: Commit | Catalog, relation_id: int, errors: int, wait: float) -> None:
    """So many errors in a row; not to be tried again before `wait` seconds have passed."""
    where.connection.execute(
        "UPDATE stream_tables SET consecutive_errors = %s, tried_at = clock_timestamp(), "
        "retry_at = clock_timestamp() + %s * interval '1 second' WHERE relation_id = %s",
        (errors, wait, relation_id),
    )


def tried(where: Commit | Catalog, relation_ids: Sequence[int], began: datetime) -> None:
    """A refresh began then; it went well."""
    where.connection.execute(
        "UPDATE stream_tables SET tried_at = %s WHERE relation_id = ANY(%s)", (began, list(relation_ids))
    )


def settle(commit: Commit, relation_ids: Sequence[int]) -> None:
    """Refreshed: whatever was wrong, or had to be done, is no more."""
    commit.connection.execute(
        "UPDATE stream_tables SET status = 'ACTIVE', status_reason = NULL, suspended_by = NULL, reinit_reason = NULL, "
        "consecutive_errors = 0, retry_at = NULL WHERE relation_id = ANY(%s)",
        (list(relation_ids),),
    )


def mark(where: Commit | Catalog, relation_ids: Sequence[int], reason: str) -> None:
    """The next refresh of these computes them anew; the first reason stays."""
    where.connection.execute(
        "UPDATE stream_tables SET reinit_reason = coalesce(reinit_reason, %s) WHERE relation_id = ANY(%s)",
        (reason, list(relation_ids)),
    )


@dataclass(frozen=True)
class Definition:
    """What the owner of a stream table says of it."""

    query: str
    dialect: str
    mode: str
    schedule: str | None
    written: str
    source_views: Mapping[str, str] = field(default_factory=dict)
    cdc_mode: str | None = None


def add(commit: Commit, relation_id: int, definition: Definition, inputs: Mapping[int, Dependency]) -> None:
    commit.connection.execute("INSERT INTO stream_tables (relation_id, query, dialect, mode, written) "
                              "VALUES (%s, '', '', '', '')", (relation_id,))  # fmt: skip
    change(commit, relation_id, definition, inputs)


def change(commit: Commit, relation_id: int, definition: Definition, inputs: Mapping[int, Dependency]) -> None:
    """Another definition of the same stream table."""
    one = definition
    commit.connection.execute(
        "UPDATE stream_tables SET query = %s, dialect = %s, mode = %s, schedule = %s, written = %s, source_views = %s, "
        "cdc_mode = %s WHERE relation_id = %s",
        (one.query, one.dialect, one.mode, one.schedule, one.written, json.dumps(dict(one.source_views)), one.cdc_mode,
         relation_id),
    )  # fmt: skip
    commit.connection.execute("DELETE FROM dependencies WHERE view_id = %s", (relation_id,))
    with commit.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO dependencies (view_id, input_id, columns, shape) VALUES (%s, %s, %s, %s)",
            [(relation_id, input_id, list(one.columns), one.shape.to_json()) for input_id, one in inputs.items()],
        )


def remove(commit: Commit, relation_id: int) -> None:
    commit.connection.execute("DELETE FROM relations WHERE id = %s", (relation_id,))


def remember_views(where: Commit | Catalog, relation_id: int, views: Mapping[str, str]) -> None:
    """The views of the source as they are now, whatever the stream table makes of them."""
    where.connection.execute(
        "UPDATE stream_tables SET source_views = %s WHERE relation_id = %s", (json.dumps(dict(views)), relation_id)
    )


def put_aside(commit: Commit, relation_id: int) -> None:
    """Its name and folders are free for another one."""
    commit.connection.execute(
        "UPDATE relations SET name = name || '#' || id, folder = folder || '#' || id WHERE %s IN (id, owner_id)",
        (relation_id,),
    )


def hand_over(commit: Commit, old: int, new: int, rows: int) -> None:
    """The history of a stream table goes on with its successor, which begins without the predecessor's rows."""
    commit.connection.execute(
        "UPDATE stream_tables SET rows_before = (SELECT rows_before FROM stream_tables WHERE relation_id = %s) - %s "
        "WHERE relation_id = %s",
        (old, rows, new),
    )
    commit.connection.execute("UPDATE refresh_history SET relation_id = %s WHERE relation_id = %s", (new, old))


def reach_all(commit: Commit, frontiers: Mapping[int, Frontier]) -> None:
    """Where each of these is now."""
    with commit.connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO frontiers (relation_id, round, frontier) VALUES (%s, {ROUND}, %s)",
            [(relation_id, commit.round, str(frontier)) for relation_id, frontier in frontiers.items()],
        )


def round_at(catalog: Catalog, relation_id: int, frontier: Frontier) -> int | None:
    """The last round in which the view was at exactly this frontier."""
    row = catalog.one(
        "SELECT max(round) AS round FROM frontiers WHERE relation_id = %s AND frontier = %s::jsonb",
        relation_id, str(frontier),
    )  # fmt: skip
    return cast(int | None, cast(DictRow, row)["round"])


def newest_until(catalog: Catalog, relation_id: int, frontier: Frontier) -> Frontier | None:
    """The last frontier of the view that is at or before one over the same sources."""
    rows = catalog.all("SELECT frontier FROM frontiers WHERE relation_id = %s ORDER BY round DESC", relation_id)
    reached = (Frontier.parse(json.dumps(row["frontier"])) for row in rows)
    return next((one for one in reached if one <= frontier), None)


def frontier_at(catalog: Catalog, relation_id: int, round_number: int) -> Frontier | None:
    """Where a view (or the one that remembers this) was in a round: where its last refresh up to then brought it."""
    row = catalog.one(
        "SELECT f.frontier FROM frontiers f JOIN relations r ON f.relation_id = coalesce(r.owner_id, r.id) "
        "WHERE r.id = %s AND f.round <= %s ORDER BY f.round DESC LIMIT 1",
        relation_id, round_number,
    )  # fmt: skip
    return frontier_of(row["frontier"]) if row else None


_LINE: LiteralString = (
    "INSERT INTO refresh_history (relation_id, round, action, reason, inserted, deleted, seconds, frontier, error, "
    "changed_rows, initiated_by) VALUES"
)


def _values(relation_id: int, round_number: int | None, entry: Refreshed) -> tuple[object, ...]:
    frontier = None if entry.frontier is None else str(entry.frontier)
    done = (entry.action, entry.reason, entry.inserted, entry.deleted, entry.seconds, frontier, entry.error)
    return (relation_id, round_number, *done, entry.changed_rows, entry.initiated_by)


def record(catalog: Catalog, relation_id: int, entry: Refreshed) -> None:
    """A line of history of a refresh that failed, or was not done."""
    query: LiteralString = f"{_LINE} (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    catalog.connection.execute(query, _values(relation_id, None, entry))


def record_all(commit: Commit, entries: Mapping[int, Refreshed]) -> None:
    """Lines of history inside the commit of their refreshes."""
    query: LiteralString = f"{_LINE} (%s, {ROUND}, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    with commit.connection.cursor() as cursor:
        cursor.executemany(query, [_values(id_, commit.round, entry) for id_, entry in entries.items()])


def history(catalog: Catalog, relation_id: int, limit: int = 100) -> list[Refreshed]:
    """Newest first."""
    rows = catalog.all(
        "SELECT r.name, h.action, h.reason, h.inserted, h.deleted, h.seconds, h.frontier, h.error, h.finished_at, "
        "h.changed_rows, h.initiated_by, h.round FROM refresh_history h JOIN relations r ON r.id = h.relation_id "
        "WHERE h.relation_id = %s ORDER BY h.id DESC LIMIT %s",
        relation_id, limit,
    )  # fmt: skip
    return [Refreshed(**{**row, "frontier": frontier_of(row["frontier"])}) for row in rows]


def dependants(catalog: Catalog, relation_id: int) -> list[str]:
    rows = catalog.all(
        "SELECT r.name FROM dependencies d JOIN relations r ON r.id = d.view_id WHERE d.input_id = %s ORDER BY 1",
        relation_id,
    )
    return [row["name"] for row in rows]


def readers_of_source(catalog: Catalog, source_id: int) -> list[str]:
    """The stream tables that read a table of a source, also one that is being copied again."""
    rows = catalog.all(
        "SELECT DISTINCT v.name FROM dependencies d JOIN relations v ON v.id = d.view_id "
        "JOIN relations r ON r.id = d.input_id WHERE r.source_id = %s ORDER BY 1",
        source_id,
    )
    return [row["name"] for row in rows]


def row_count(catalog: Catalog, relation_id: int) -> int:
    """Rows of the view now: what refreshes put in less what they took out."""
    row = catalog.one(
        "SELECT rows_before + (SELECT coalesce(sum(inserted - deleted), 0) FROM refresh_history "
        "WHERE relation_id = t.relation_id AND error IS NULL)::bigint AS rows "
        "FROM stream_tables t WHERE relation_id = %s",
        relation_id,
    )
    return cast(int, cast(DictRow, row)["rows"])


def newest_common(catalog: Catalog, relation_ids: Sequence[int]) -> Frontier | None:
    """The newest frontier that all of these views were at."""
    row = catalog.one(
        "SELECT frontier FROM frontiers WHERE relation_id = ANY(%s) GROUP BY frontier "
        "HAVING count(DISTINCT relation_id) = %s ORDER BY max(round) DESC LIMIT 1",
        list(relation_ids), len(relation_ids),
    )  # fmt: skip
    return frontier_of(row["frontier"]) if row else None
