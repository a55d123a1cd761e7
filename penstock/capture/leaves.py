"""Where the rows of a captured root are, and what shows that they were not moved as a whole.

Changes of rows come under the root's name. A TRUNCATE of one partition does not, nor does PostgreSQL tell that one was
dropped, detached or attached: their rows would stay here, or never come. So each leaf has a mark that is another one
after any of these: its OID, its relfilenode, and the transactions that attached it and the partitions it is in. A leaf
that is new must be without storage when it is first seen: then it never had a row, and all that come are in the WAL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from psycopg import errors as pg

from penstock.capture.connection import Connection, translated
from penstock.errors import SchemaChanged

Leaves = Mapping[str, str]
"""The names of a root's leaves, by mark."""

# One that is being detached concurrently is no partition to pgoutput any more (the column came with 14).
_LEAVES = """
WITH RECURSIVE parts(root, oid, attached) AS (
    SELECT root, root, '' FROM unnest(%s::oid[]) root
    UNION ALL
    SELECT p.root, i.inhrelid, p.attached || ':' || i.xmin::text FROM parts p JOIN pg_inherits i ON i.inhparent = p.oid
    WHERE to_jsonb(i) ->> 'inhdetachpending' IS DISTINCT FROM 'true'
)
SELECT p.root::int8, c.oid::int8 || ':' || c.relfilenode || p.attached, n.nspname || '.' || c.relname
FROM parts p JOIN pg_class c ON c.oid = p.oid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind <> 'p'
"""
_USED = """
SELECT c.oid::int8 FROM pg_class c WHERE c.oid = ANY(%s)
    AND (c.relkind <> 'r' OR c.relpersistence <> 'p' OR COALESCE(pg_relation_size(c.oid), 1) > 0)
"""
_WAIT = "SET LOCAL lock_timeout = '1s'"  # the size of a table waits for whoever changes it


@dataclass(frozen=True)
class Moved:
    """The marks to compare with next time, and what was done to leaves as a whole, if rows may have moved by it."""

    known: frozenset[str]
    what: str | None = None


def read_leaves(connection: Connection, roots: Collection[int]) -> dict[int, Leaves]:
    """By the root's OID."""
    found: dict[int, dict[str, str]] = {oid: {} for oid in roots}
    if found:
        with translated():
            for root, mark, name in connection.execute(_LEAVES, [list(found)]):
                found[root][mark] = name
    return dict(found)


def moved(connection: Connection, known: Collection[str], now: Leaves) -> Moved:
    """Leaves as they are, beside those that were known; a new one that somebody is changing is new next time too."""
    if lost := [mark for mark in known if mark not in now]:
        return Moved(frozenset(known), _what_became_of(lost, now))
    new = {_oid(mark): mark for mark in now if mark not in known}
    with translated():
        try:
            used = _used(connection, new)
        except pg.LockNotAvailable:
            return Moved(frozenset(known))
    if used:
        names = ", ".join(sorted(now[new[oid]] for oid in used))
        return Moved(frozenset(known), f"partition {names} had storage when it was first seen, perhaps rows")
    return Moved(frozenset(now))


def check_leaves(table: str, known: Collection[str], now: Leaves) -> None:
    """For a reader that knows what it has read only: what cannot be a TRUNCATE of the root, which it is sent.

    That gives every leaf another storage. Nor can it tell rows that a new leaf came with from those sent since.
    """
    lost = [mark for mark in known if mark not in now]
    placed = {_placed(mark) for mark in now}
    if lost and (len(lost) < len(known) or any(_placed(mark) not in placed for mark in lost)):
        raise rows_moved(table, _what_became_of(lost, now))


def rows_moved(table: str, what: str) -> SchemaChanged:
    return SchemaChanged(
        f"{table} has other rows than were captured, and the WAL does not tell: {what}",
        hint=f"Copy it again: ps.resync(…, {table!r}).",
        table=table,
    )


def _what_became_of(lost: Sequence[str], now: Leaves) -> str:
    names = {_oid(mark): name for mark, name in now.items()}
    still = sorted(names[oid] for oid in map(_oid, lost) if oid in names)
    told = [f"partitions dropped or detached: {len(lost) - len(still)}"] if len(still) < len(lost) else []
    if still:
        told.append(f"partition {', '.join(still)} was truncated, rewritten, or detached and attached again")
    return "; ".join(told)


def _used(connection: Connection, leaves: Iterable[int]) -> list[int]:
    """Those that have storage, or changes that are not logged."""
    asked = list(leaves)
    if not asked:
        return asked
    with connection.transaction():
        connection.execute(_WAIT)
        return [oid for (oid,) in connection.execute(_USED, [asked])]


def _placed(mark: str) -> tuple[str, ...]:
    """Without its storage."""
    oid, _, *attached = mark.split(":")
    return oid, *attached


def _oid(mark: str) -> int:
    return int(mark.partition(":")[0])
