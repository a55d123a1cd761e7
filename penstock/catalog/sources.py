"""Sources and their positions, as the catalog holds them.

A source is `copying` while one of its tables is being copied, from the moment its name is taken, and `streaming`
otherwise. It has a position as soon as its slot is there. Only capture sets either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, LiteralString

from psycopg import Cursor
from psycopg.rows import DictRow

from penstock.catalog.store import Catalog, Commit, Question
from penstock.errors import NotFound
from penstock.lsn import Lsn

State = Literal["copying", "streaming"]


@dataclass(frozen=True)
class Source:
    """A registered source; `captured` and `settled` are None until its slot is there."""

    id: int
    name: str
    dsn: str = field(repr=False)  # may hold a password
    tables: tuple[str, ...]
    options: dict[str, Any]
    slot: str
    publication: str
    state: State
    checkpoint: str | None
    captured: Lsn | None
    settled: Lsn | None


_SELECT = """
    SELECT s.id, s.name, s.dsn, s.tables, s.options, s.slot, s.publication, s.state,
           p.checkpoint, p.captured, p.settled
    FROM sources s LEFT JOIN positions p ON p.source_id = s.id
"""


def _source(row: DictRow) -> Source:
    return Source(
        **{
            **row,
            "tables": tuple(row["tables"]),
            "checkpoint": None if row["checkpoint"] is None else json.dumps(row["checkpoint"]),
            "captured": None if row["captured"] is None else Lsn(row["captured"]),
            "settled": None if row["settled"] is None else Lsn(row["settled"]),
        }
    )


def is_partial(options: Mapping[str, Any], table: str) -> bool:
    """Whether a table (`schema.table`) is only streamed: it has the rows that changed since, and not those before."""
    modes = options.get("sync_modes", {})
    return options.get("snapshot_mode") == "never" or modes.get(table) == "stream-only"


EVERY = Question(_SELECT + " ORDER BY s.name", lambda rows: [_source(row) for row in rows])


def every(catalog: Catalog) -> list[Source]:
    return catalog.answer(EVERY)


def lookup(catalog: Catalog, name: str) -> Source | None:
    row = catalog.one(_SELECT + " WHERE s.name = %s", name)
    return None if row is None else _source(row)


def get(catalog: Catalog, name: str) -> Source:
    source = lookup(catalog, name)
    if source is None:
        known = ", ".join(one.name for one in every(catalog)) or "none yet"
        raise NotFound(f"no source {name!r}", hint=f"Known sources: {known}. Add one with `penstock source add`.")
    return source


_WAITING: LiteralString = (
    "EXISTS (SELECT FROM segments s JOIN relations r ON r.id = s.relation_id "
    "WHERE r.source_id = positions.source_id AND s.waiting AND NOT r.retired)"
)
_UNSETTLED: LiteralString = f"settled <> captured OR {_WAITING} AS unsettled"


def is_unsettled(catalog: Catalog, source_id: int) -> bool:
    """Whether something that was captured cannot be read yet."""
    row = catalog.one(f"SELECT {_UNSETTLED} FROM positions WHERE source_id = %s", source_id)
    return bool(row and row["unsettled"])


def register(
    catalog: Catalog, name: str, dsn: str, tables: Sequence[str], options: dict[str, Any], slot: str, publication: str
) -> None:
    """Take the name and write down what will be made on the server, before it is made."""
    catalog.connection.execute(
        "INSERT INTO sources (name, dsn, tables, options, slot, publication, state) "
        "VALUES (%s, %s, %s, %s, %s, %s, 'copying')",
        (name, dsn, list(tables), json.dumps(options), slot, publication),
    )


def move(commit: Commit, source_id: int, checkpoint: str, captured: int) -> Cursor[DictRow]:
    """Record how far capture is durable; if nothing of the source waits for settling, all of it can be read at once.

    What is returned tells `left_unsettled`, once the statements of the commit were sent.
    """
    moved = commit.connection.execute(
        "INSERT INTO positions (source_id, checkpoint, captured, settled) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (source_id) DO UPDATE SET checkpoint = excluded.checkpoint, captured = excluded.captured, "
        f"settled = CASE WHEN positions.settled = positions.captured AND NOT {_WAITING} "
        "THEN excluded.captured ELSE positions.settled END, moved_at = clock_timestamp() "
        f"RETURNING {_UNSETTLED}",
        (source_id, checkpoint, captured, captured),
    )
    tell_state(commit, source_id)
    return moved


def left_unsettled(moved: Cursor[DictRow]) -> bool:
    """Whether something that was captured up to there cannot be read yet."""
    row = moved.fetchone()
    return bool(row and row["unsettled"])


def tell_state(commit: Commit, source_id: int) -> None:
    """A source with a table that is being copied is copying."""
    commit.connection.execute(
        "UPDATE sources s SET state = n.state FROM (SELECT CASE WHEN EXISTS (SELECT FROM copies WHERE source_id = %s) "
        "THEN 'copying' ELSE 'streaming' END AS state) n WHERE s.id = %s AND s.state <> n.state",
        (source_id, source_id),
    )


def change_tables(commit: Commit, source_id: int, tables: Sequence[str]) -> None:
    commit.connection.execute("UPDATE sources SET tables = %s WHERE id = %s", (list(tables), source_id))


def change_settings(commit: Commit, source_id: int, dsn: str, options: dict[str, Any]) -> None:
    commit.connection.execute(
        "UPDATE sources SET dsn = %s, options = %s WHERE id = %s", (dsn, json.dumps(options), source_id)
    )


def settle(commit: Commit, source_id: int, settled: int) -> None:
    commit.connection.execute(
        "UPDATE positions SET settled = greatest(settled, %s) WHERE source_id = %s", (settled, source_id)
    )


def remove(commit: Commit, source_id: int) -> None:
    commit.connection.execute("DELETE FROM sources WHERE id = %s", (source_id,))


def forget(catalog: Catalog, source_id: int) -> None:
    """Take back a source whose first copy failed before anything of it was durable."""
    catalog.connection.execute("DELETE FROM sources WHERE id = %s AND state = 'copying'", (source_id,))
