"""What became of a source's tables, as its catalog shows them now: one query for all of them, however many there are.

The WAL tells of a change only with the next row of its table, and of a table that was dropped, made again or is new
not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.capture.connection import Connection, translated
from penstock.capture.discover import Patterns, split_name
from penstock.capture.generated_columns import sent
from penstock.relation.schema import Schema

_SEEN = """
SELECT n.nspname || '.' || c.relname, c.oid::int8, c.relkind::text, c.relispartition,
       md5(string_agg(a.attnum || ' ' || a.attname || ' ' || a.atttypid::int8 || ' ' || a.atttypmod, ','
                      ORDER BY a.attnum))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND {sent}
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname = ANY(%s)
GROUP BY 1, 2, 3, 4
"""


@dataclass(frozen=True)
class Seen:
    """A table of the server; `columns` is a digest of their numbers, names and types."""

    oid: int
    kind: str
    is_partition: bool
    columns: str


@dataclass(frozen=True)
class Captured:
    """A table as it is known here; `columns` is None where they may well be others than the table's own."""

    oid: int
    columns: str | None
    ended: bool = False


@dataclass(frozen=True)
class Surroundings:
    """Tables by what became of them: `gone`, `made_again`, `changed` their columns, or `new` and asked for.

    `moved` are roots with rows that came or went with partitions, and how.
    """

    gone: tuple[str, ...] = ()
    made_again: tuple[str, ...] = ()
    changed: Mapping[str, str] = field(default_factory=dict)  # with the digest of their columns now
    new: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)


def look(connection: Connection, schemas: Collection[str]) -> dict[str, Seen]:
    with translated():
        query = _SEEN.format(sent=sent(connection.info.server_version))
        return {name: Seen(*rest) for name, *rest in connection.execute(query.encode(), [sorted(schemas)])}


def schemas_of(names: Iterable[str], asked: Sequence[str]) -> set[str]:
    return {name.partition(".")[0] for name in names} | {split_name(one.removeprefix("!"))[0] for one in asked}


def compare_tables(
    seen: Mapping[str, Seen],
    captured: Mapping[str, Captured],
    pending: Collection[str],
    asked: Patterns,
    *,
    as_root: bool,
    listed: Collection[str] = (),
) -> Surroundings:
    """`pending` tables are being copied: what became of those, the copy finds out. `listed` are asked for by name."""
    gone, again, changed = [], [], {}
    for name, known in captured.items():
        now = seen.get(name)
        if now is None:
            gone += [] if known.ended else [name]
        elif known.ended or (known.oid and now.oid != known.oid):
            again.append(name)
        elif known.columns is not None and now.columns != known.columns:
            changed[name] = now.columns
    new = [
        name
        for name, one in seen.items()
        if name not in captured and name not in pending and (as_root or one.kind != "p")
        if name in listed or (asked.match(name) and not (as_root and one.is_partition))
    ]
    return Surroundings(tuple(sorted(gone)), tuple(sorted(again)), changed, tuple(sorted(new)))


@lru_cache(maxsize=4096)
def digest(schema: Schema) -> str:
    """As PostgreSQL computes it of the same columns."""
    parts = [f"{c.attnum} {c.name} {c.pg.oid} {c.pg.typmod}" for c in schema.columns]
    return hashlib.md5(",".join(parts).encode(), usedforsecurity=False).hexdigest()
