"""Relations, their schema versions, segments and bases, as the catalog holds them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal, cast

from psycopg.rows import DictRow

from penstock.catalog.store import ROUND, Catalog, Commit, Question
from penstock.errors import AmbiguousName, NotFound, NotRetained
from penstock.relation.schema import Schema
from penstock.relation.segment import PENDING, Form, Segment

Kind = Literal["table", "view", "state"]


@dataclass(frozen=True)
class Relation:
    """A source table, a stream table, or what an operator of one remembers: all stored alike."""

    id: int
    name: str
    kind: Kind
    folder: str
    schema: Schema
    version: int
    since: int = 0  # the position from which on it can be read
    source: str | None = None
    retained: int = -1  # changes up to here may be gone
    shaped: int = 0  # the position from which on it has this version
    ended: int | None = None  # the last position it can be read at, if it is captured no longer
    ended_because: str | None = None

    @property
    def table(self) -> str:
        """`schema.table` in its source."""
        return self.name.partition(".")[2]


@dataclass(frozen=True)
class Base:
    """The Delta table at `delta_version` equals the relation at `position`."""

    position: int
    delta_version: int
    rows: int
    version: int = 1  # of the relation's shape


_SELECT = """
    SELECT r.id, r.name, r.kind, r.folder, r.retained, s.name AS source, v.version, v.schema::text,
           v.from_position AS shaped, r.ended, r.ended_because,
           (SELECT min(from_position) FROM schema_versions WHERE relation_id = r.id) AS since
    FROM relations r LEFT JOIN sources s ON s.id = r.source_id
    JOIN LATERAL (SELECT version, schema, from_position FROM schema_versions
                  WHERE relation_id = r.id ORDER BY version DESC LIMIT 1) v ON true
    WHERE NOT r.retired
"""


def _relation(row: DictRow) -> Relation:
    return Relation(**{**row, "schema": _schema(row["schema"])})


@lru_cache(maxsize=4096)
def _schema(text: str) -> Schema:
    """A version never changes, and a round looks at all of them."""
    return Schema.from_json(text)


EVERY = Question(_SELECT + " AND r.kind <> 'state' ORDER BY r.name", lambda rows: [_relation(row) for row in rows])


def _by_owner(rows: list[DictRow]) -> dict[int, list[Relation]]:
    found: dict[int, list[Relation]] = {}
    for row in rows:
        found.setdefault(row.pop("owner_id"), []).append(_relation(row))
    return found


STATES = Question(
    _SELECT.replace("SELECT r.id,", "SELECT r.owner_id, r.id,", 1) + " AND r.kind = 'state' ORDER BY r.name", _by_owner
)
"""What the operators of each view remember, by view."""


def every(catalog: Catalog) -> list[Relation]:
    """All tables and views, by name; not what operators remember."""
    return catalog.answer(EVERY)


def of_source(catalog: Catalog, source: str) -> list[Relation]:
    return [_relation(row) for row in catalog.all(_SELECT + " AND s.name = %s ORDER BY r.name", source)]


def ids_of_source(catalog: Catalog, source_id: int) -> dict[str, int]:
    """By `schema.table`; without the shapes, which are most of what there is to read."""
    rows = catalog.all("SELECT id, name FROM relations WHERE source_id = %s AND NOT retired", source_id)
    return {row["name"].partition(".")[2]: row["id"] for row in rows}


def states_of(catalog: Catalog, view: Relation) -> list[Relation]:
    return [_relation(row) for row in catalog.all(_SELECT + " AND r.owner_id = %s ORDER BY r.name", view.id)]


def by_id(catalog: Catalog, identifiers: Iterable[int]) -> list[Relation]:
    return [_relation(row) for row in catalog.all(_SELECT + " AND r.id = ANY(%s) ORDER BY r.name", list(identifiers))]


@dataclass(frozen=True)
class Version:
    """A shape of a relation, the position from which on it has it, and what became of the shape before."""

    version: int
    from_position: int
    schema: Schema
    changes: tuple[str, ...] = ()


def versions(catalog: Catalog, relation_id: int) -> list[Version]:
    """The shapes a relation has had, oldest first."""
    rows = catalog.all(
        "SELECT version, from_position, schema::text, changes FROM schema_versions WHERE relation_id = %s "
        "ORDER BY version",
        relation_id,
    )
    return [
        Version(row["version"], row["from_position"], _schema(row["schema"]), tuple(row["changes"])) for row in rows
    ]


def at(catalog: Catalog, relation: Relation, position: int) -> Relation:
    """The relation in the shape it has at a position."""
    if position >= relation.shaped or relation.version == 1:
        return relation
    found = [one for one in versions(catalog, relation.id) if one.from_position <= position]
    then = found[-1] if found else versions(catalog, relation.id)[0]
    return replace(relation, schema=then.schema, version=then.version, shaped=then.from_position)


@dataclass(frozen=True)
class Storage:
    """What the source's catalog said of a table while it had its newest shape here; 0 if it was not asked then.

    `leaves` are the marks of those of a partitioned table, as they were when it was copied or last looked at; None if
    that was never.
    """

    filenode: int = 0
    attributes: int = 0
    oid: int = 0
    leaves: frozenset[str] | None = None


def storages(catalog: Catalog, source_id: int) -> dict[int, Storage]:
    """By relation."""
    rows = catalog.all("SELECT id, storage FROM relations WHERE source_id = %s AND storage IS NOT NULL", source_id)
    return {row["id"]: _storage(row["storage"]) for row in rows}


def _storage(stored: dict[str, Any]) -> Storage:
    leaves = stored.get("leaves")
    return Storage(**{**stored, "leaves": None if leaves is None else frozenset(leaves)})


def remember_storage(where: Commit | Catalog, relation_id: int, storage: Storage) -> None:
    """Of the table itself; what is known of its leaves stays, unless `storage` has others."""
    known = {**asdict(storage), "leaves": None if storage.leaves is None else sorted(storage.leaves)}
    where.connection.execute(
        "UPDATE relations SET storage = COALESCE(storage, '{}') || jsonb_strip_nulls(%s) WHERE id = %s",
        (json.dumps(known), relation_id),
    )


def end(commit: Commit, relation_id: int, position: int, reason: str) -> None:
    """The table is captured no longer; what it was up to `position` stays readable."""
    commit.connection.execute(
        "UPDATE relations SET ended = %s, ended_because = %s WHERE id = %s", (position, reason, relation_id)
    )


def add_version(commit: Commit, relation_id: int, version: Version) -> None:
    commit.connection.execute(
        "INSERT INTO schema_versions (relation_id, version, from_position, schema, changes) "
        "VALUES (%s, %s, %s, %s, %s)",
        (relation_id, version.version, version.from_position, version.schema.to_json(), list(version.changes)),
    )


def find(catalog: Catalog, name: str) -> Relation:
    """By `orders`, `public.orders`, `shop.public.orders` or a view's name."""
    return choose(every(catalog), name)


def choose(known: Sequence[Relation], name: str) -> Relation:
    """The one relation that `name` means; an ambiguous short name is an error that lists the candidates."""
    exact = [relation for relation in known if relation.name == name]
    candidates = exact or [relation for relation in known if relation.name.endswith("." + name)]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = ", ".join(relation.name for relation in candidates)
        raise AmbiguousName(f"{name!r} could be any of: {names}", hint="Write the name with its schema and source.")
    names = ", ".join(relation.name for relation in known) or "none yet"
    raise NotFound(f"no table or stream table {name!r}", hint=f"Known relations: {names}.")


def add(
    commit: Commit, name: str, kind: Kind, folder: str, schema: Schema, *, source_id: int | None = None,
    owner_id: int | None = None, position: int = 0,
) -> int:  # fmt: skip
    row = commit.connection.execute(
        "INSERT INTO relations (name, kind, source_id, owner_id, folder) VALUES (%s, %s, %s, %s, %s) RETURNING id",
        (name, kind, source_id, owner_id, folder),
    ).fetchone()
    identifier = cast(int, cast(DictRow, row)["id"])
    commit.connection.execute(
        "INSERT INTO schema_versions (relation_id, version, from_position, schema) VALUES (%s, 1, %s, %s)",
        (identifier, position, schema.to_json()),
    )
    return identifier


def remove(commit: Commit, relation_id: int) -> None:
    commit.connection.execute("DELETE FROM relations WHERE id = %s", (relation_id,))


def record_segments(commit: Commit, relation_id: int, segments: Iterable[Segment]) -> None:
    record_all_segments(commit, {relation_id: segments})


def record_all_segments(commit: Commit, found: Mapping[int, Iterable[Segment]]) -> None:
    """Segments by relation."""
    by = (commit.attempt, commit.round)
    with commit.connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO segments (relation_id, attempt_id, round, waiting, path, rows, bytes, low, high, version, "
            f"form, first_time, last_time, checksum, ranges) VALUES (%s, %s, {ROUND}, %s, %s, %s, %s, "
            f"{ROUND}, {ROUND}, %s, %s, %s, %s, %s, %s)",
            [(id_, *by, s.form == "raw", *described(s)) for id_, segments in found.items() for s in segments],
        )


def described(s: Segment) -> tuple[object, ...]:
    """A segment's own columns, in the order in which they are read; no position stands for the commit's round."""
    ends = (None, None) if s.high == PENDING else (s.low, s.high)
    times = (s.first_time, s.last_time)
    return s.path, s.rows, s.bytes, *ends, s.version, s.form, *times, s.checksum, json.dumps(s.ranges)


@dataclass(frozen=True)
class Listed:
    """The segments of a relation that hold rows after a position, oldest first, as the catalog listed them once."""

    relation: str
    after: int
    retained: int
    segments: tuple[Segment, ...]

    def within(self, after: int, until: int) -> list[Segment]:
        """Those that hold rows of the range (after, until]. Raises if some may be gone."""
        if after < min(self.retained, until):
            raise NotRetained(
                f"changes of {self.relation} up to {self.retained} are not kept any more; asked for from {after}",
                hint="Read it at a later frontier. A pin, or a longer changelog_retention, keeps what you need.",
            )
        first = bisect_right(self.segments, after, key=lambda one: one.high)
        return [one for one in self.segments[first:] if one.low <= until]


SEGMENT = "s.path, s.rows, s.bytes, s.low, s.high, s.version, s.form, s.first_time, s.last_time, s.checksum, s.ranges"


def segments(catalog: Catalog, relation_id: int, after: int, until: int, *, form: Form = "settled") -> list[Segment]:
    """Segments that hold rows of the range (after, until], oldest first. Raises if some may be gone."""
    rows = catalog.all(
        f"SELECT r.name, r.retained, {SEGMENT} FROM relations r LEFT JOIN segments s "
        "ON s.relation_id = r.id AND s.form = %s AND s.high > %s AND s.low <= %s WHERE r.id = %s ORDER BY s.high, s.id",
        form, int(after), until, relation_id,
    )  # fmt: skip
    if not rows:
        return []
    names, kept = [row.pop("name") for row in rows], [row.pop("retained") for row in rows]
    found = tuple(Segment.from_row(row) for row in rows if row["path"] is not None)
    return Listed(names[0], after, kept[0], found).within(after, until)


def bases(catalog: Catalog, relation_id: int) -> list[Base]:
    """All bases of a relation, newest first."""
    return catalog.answer(bases_of([relation_id]))[relation_id]


def bases_of(identifiers: Collection[int]) -> Question[dict[int, list[Base]]]:
    """All bases of each relation, newest first."""

    def read(rows: list[DictRow]) -> dict[int, list[Base]]:
        found: dict[int, list[Base]] = {id_: [] for id_ in identifiers}
        for row in rows:
            found[row.pop("relation_id")].append(Base(**row))
        return found

    return Question(
        "SELECT relation_id, position, delta_version, rows, version FROM bases WHERE relation_id = ANY(%s) "
        "ORDER BY position DESC",
        read,
        (list(identifiers),),
    )


def record_base(commit: Commit, relation_id: int, base: Base) -> None:
    commit.connection.execute(
        "INSERT INTO bases (relation_id, position, delta_version, round, rows, version) "
        "VALUES (%s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (relation_id, position) DO UPDATE SET delta_version = excluded.delta_version, "
        "round = excluded.round, rows = excluded.rows, version = excluded.version",
        (relation_id, base.position, base.delta_version, commit.round, base.rows, base.version),
    )


def raw_groups(catalog: Catalog, relation_id: int, until: int) -> list[list[Segment]]:
    """Captured segments that wait for settling, those of one commit together, oldest first."""
    rows = catalog.all(
        "SELECT round, path, rows, bytes, low, high, version, form, first_time, last_time, checksum, ranges "
        "FROM segments "
        "WHERE relation_id = %s AND waiting AND high <= %s ORDER BY round, id",
        relation_id, until,
    )  # fmt: skip
    groups: dict[int, list[Segment]] = {}
    for row in rows:
        groups.setdefault(row.pop("round"), []).append(Segment.from_row(row))
    return list(groups.values())


def settled_of_source(source: str) -> Question[list[Relation]]:
    """The tables of the source without captured segments that wait for settling."""
    nothing_waits = " AND NOT EXISTS (SELECT FROM segments w WHERE w.relation_id = r.id AND w.waiting)"
    query = _SELECT + nothing_waits + " AND s.name = %s ORDER BY r.name"
    return Question(query, lambda rows: [_relation(row) for row in rows], (source,))


def waiting_of(catalog: Catalog, source_id: int) -> list[int]:
    """The tables of the source with captured segments that wait for settling."""
    rows = catalog.all(
        "SELECT DISTINCT s.relation_id AS id FROM segments s JOIN relations r ON r.id = s.relation_id "
        "WHERE r.source_id = %s AND s.waiting AND NOT r.retired",
        source_id,
    )
    return [row["id"] for row in rows]


def settled(commit: Commit, relation_id: int, until: int) -> None:
    """What waited up to `until` is settled: nobody reads it as it was captured any more."""
    commit.connection.execute(
        "DELETE FROM segments WHERE relation_id = %s AND waiting AND high <= %s", (relation_id, until)
    )
