"""Copies under way, as the catalog holds them: ranges and files that are durable, and what they need to be finished.

A copy is `fresh` until it has a snapshot. Its ranges are done one by one, each in a commit of its own. `complete` turns
it into a relation in one commit: from then on, and not before, the table can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from psycopg.rows import DictRow

from penstock.catalog import relations
from penstock.catalog.store import ROUND, Catalog, Commit
from penstock.relation.schema import Schema
from penstock.relation.segment import Segment

Kind = Literal["range", "change", "correction"]


@dataclass(frozen=True)
class Copy:
    """A table that is being copied; `lsn` is that of its newest snapshot.

    `look`: a value did not fit its column's form, so all values are looked at before the table is copied.
    """

    id: int
    name: str
    replaces: int | None
    lsn: int | None
    storage: str | None
    schema: Schema | None
    look: bool = False


@dataclass(frozen=True)
class Range:
    """A part of the table; `lsn` is None until it is copied."""

    number: int
    by: str
    low: int | None
    high: int | None
    lsn: int | None = None


def pending(catalog: Catalog, source_id: int) -> list[Copy]:
    rows = catalog.all(
        "SELECT id, name, replaces, lsn, storage, schema, look FROM copies WHERE source_id = %s ORDER BY name",
        source_id,
    )
    return [
        Copy(**{**row, "schema": None if row["schema"] is None else Schema.from_json(json.dumps(row["schema"]))})
        for row in rows
    ]


def add(commit: Commit, source_id: int, name: str, *, replaces: int | None = None, look: bool = False) -> None:
    """A table to be copied; one that is being copied already starts again."""
    commit.connection.execute(
        "INSERT INTO copies (source_id, name, replaces, look) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (source_id, name) DO UPDATE SET lsn = NULL, look = copies.look OR excluded.look",
        (source_id, name, replaces, look),
    )


def drop(commit: Commit, source_id: int, name: str) -> None:
    commit.connection.execute("DELETE FROM copies WHERE source_id = %s AND name = %s", (source_id, name))


def give_up(commit: Commit, source_id: int, name: str) -> tuple[int, int] | None:
    """Stop copying a table. What the copy was to replace is in sight again: its relation, and the last position that
    it can be read at."""
    row = commit.connection.execute(
        "UPDATE relations r SET retired = false, name = left(r.name, -length('#' || r.id)), "
        "folder = left(r.folder, -length('#' || r.id)) FROM copies c "
        "WHERE c.source_id = %s AND c.name = %s AND r.id = c.replaces AND r.retired "
        "RETURNING r.id, greatest((SELECT max(from_position) FROM schema_versions WHERE relation_id = r.id), "
        "(SELECT max(high) FROM segments WHERE relation_id = r.id), "
        "(SELECT max(position) FROM bases WHERE relation_id = r.id)) AS position",
        (source_id, name),
    ).fetchone()
    drop(commit, source_id, name)
    return None if row is None else (row["id"], row["position"])


def begin(commit: Commit, copy_id: int, lsn: int, storage: str, schema: Schema, ranges: Iterable[Range]) -> None:
    """Start a copy from nothing under the snapshot at `lsn`."""
    connection = commit.connection
    connection.execute("DELETE FROM copy_ranges WHERE copy_id = %s", (copy_id,))
    connection.execute("DELETE FROM copy_files WHERE copy_id = %s", (copy_id,))
    connection.execute(
        "UPDATE copies SET lsn = %s, storage = %s, schema = %s WHERE id = %s",
        (lsn, storage, schema.to_json(), copy_id),
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO copy_ranges (copy_id, number, by_column, low, high) VALUES (%s, %s, %s, %s, %s)",
            [(copy_id, one.number, one.by, one.low, one.high) for one in ranges],
        )


def go_on(commit: Commit, copy_id: int, lsn: int) -> None:
    """Go on under a newer snapshot: finished ranges stay, a correction of them is out of date."""
    commit.connection.execute("UPDATE copies SET lsn = %s WHERE id = %s", (lsn, copy_id))
    commit.connection.execute("DELETE FROM copy_files WHERE copy_id = %s AND kind = 'correction'", (copy_id,))


def ranges(catalog: Catalog, copy_id: int) -> list[Range]:
    rows = catalog.all(
        "SELECT number, by_column AS by, low, high, lsn FROM copy_ranges WHERE copy_id = %s ORDER BY number", copy_id
    )
    return [Range(**row) for row in rows]


def any_finished(catalog: Catalog, source_id: int) -> bool:
    """Whether a range of any table under way is durable."""
    row = catalog.one(
        "SELECT EXISTS (SELECT FROM copy_ranges r JOIN copies c ON c.id = r.copy_id "
        "WHERE c.source_id = %s AND r.lsn IS NOT NULL) AS ok",
        source_id,
    )
    return cast(bool, cast(DictRow, row)["ok"])


def finish_range(commit: Commit, copy_id: int, number: int, lsn: int, written: Sequence[Segment]) -> None:
    commit.connection.execute(
        "UPDATE copy_ranges SET lsn = %s WHERE copy_id = %s AND number = %s", (lsn, copy_id, number)
    )
    record_files(commit, copy_id, "range", written)


def record_files(commit: Commit, copy_id: int, kind: Kind, written: Iterable[Segment]) -> None:
    with commit.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO copy_files (copy_id, kind, attempt_id, round, path, rows, bytes, low, high, version, form, "
            "first_time, last_time, checksum, ranges) "
            f"VALUES (%s, %s, %s, {ROUND}, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [(copy_id, kind, commit.attempt, commit.round, *relations.described(s)) for s in written],
        )


def files(catalog: Catalog, copy_id: int, kind: Kind) -> list[Segment]:
    rows = catalog.all(
        "SELECT path, rows, bytes, low, high, version, form, first_time, last_time, checksum, ranges FROM copy_files "
        "WHERE copy_id = %s AND kind = %s ORDER BY id",
        copy_id, kind,
    )  # fmt: skip
    return [Segment.from_row(row) for row in rows]


def unsettled(commit: Commit, copy: Copy) -> bool:
    """Whether changes came after the copy's snapshot that must be settled before they can be read."""
    row = commit.connection.execute(
        "SELECT EXISTS (SELECT FROM copy_files "
        "WHERE copy_id = %s AND kind = 'change' AND form = 'raw' AND low > %s) AS ok",
        (copy.id, copy.lsn),
    ).fetchone()
    return cast(bool, cast(DictRow, row)["ok"])


def complete(commit: Commit, copy: Copy, relation_id: int) -> None:
    """Its rows and the changes after its snapshot become those of the relation; what reads the old one reads this."""
    connection = commit.connection
    connection.execute(
        "INSERT INTO segments (relation_id, attempt_id, round, form, path, rows, bytes, low, high, version, waiting, "
        "first_time, last_time, checksum, ranges) "
        "SELECT %s, attempt_id, round, form, path, rows, bytes, low, high, 1, form = 'raw', "
        "first_time, last_time, checksum, ranges FROM copy_files "
        "WHERE copy_id = %s AND (kind <> 'change' OR low > %s) ORDER BY id",
        (relation_id, copy.id, copy.lsn),
    )
    if copy.replaces is not None:
        _read_instead(commit, copy, relation_id)
    connection.execute("DELETE FROM copies WHERE id = %s", (copy.id,))


def _read_instead(commit: Commit, copy: Copy, relation_id: int) -> None:
    """Views over the old table read the new one, by the names of its columns: the old numbers may be others' now."""
    assert copy.schema is not None
    numbers = {column.name: column.attnum for column in copy.schema.columns}
    found = commit.connection.execute(
        "SELECT view_id, shape::text FROM dependencies WHERE input_id = %s", (copy.replaces,)
    ).fetchall()
    for row in found:
        shape = Schema.from_json(row["shape"])
        columns = tuple(replace(column, attnum=numbers.get(column.name, 0)) for column in shape.columns)
        commit.connection.execute(
            "UPDATE dependencies SET input_id = %s, shape = %s WHERE view_id = %s AND input_id = %s",
            (relation_id, replace(shape, columns=columns).to_json(), row["view_id"], copy.replaces),
        )


def retire(commit: Commit, relation: relations.Relation) -> None:
    """Take a table out of sight, its name free for the new copy."""
    commit.connection.execute(
        "UPDATE relations SET retired = true, name = name || '#' || id, folder = folder || '#' || id WHERE id = %s",
        (relation.id,),
    )


def forget_retired(catalog: Catalog, source_id: int) -> None:
    """Retired tables whose new copy is there."""
    catalog.connection.execute(
        "DELETE FROM relations r WHERE source_id = %s AND retired "
        "AND NOT EXISTS (SELECT FROM copies WHERE replaces = r.id) "
        "AND NOT EXISTS (SELECT FROM dependencies WHERE input_id = r.id)",
        (source_id,),
    )
