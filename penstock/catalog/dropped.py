"""Files that the catalog has forgotten: each is noted in the transaction that forgets it, and removed from disk later.

A file goes first from the disk and then from the note, so that a crash in between only repeats the former. Whoever read
the catalog before it was forgotten may still be reading it. So it stays for a while, and beyond that while there is
a pin, a publish or an attempt of a live worker from before.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from penstock.catalog.store import Catalog
from penstock.failpoint import hit
from penstock.relation import segment
from penstock.relation.home import Home

_REMOVABLE = """
    SELECT path, bytes FROM dropped_files d
    WHERE relation_id IS NULL OR (
        dropped_at < clock_timestamp() - %s * interval '1 second'
        AND NOT EXISTS (SELECT FROM pins WHERE created_at <= d.dropped_at)
        AND NOT EXISTS (
            SELECT FROM attempts a JOIN leases l ON l.name = a.lease AND l.epoch = a.epoch
            WHERE a.state = 'open' AND a.started_at <= d.dropped_at AND l.name IN (SELECT name FROM held))
        AND NOT EXISTS (
            SELECT FROM leases l WHERE l.name LIKE 'publish %%' AND l.acquired_at <= d.dropped_at
            AND l.name IN (SELECT name FROM held)))
"""
# A lease's lock is the hash of its name, which pg_locks shows in two halves.
_HELD = """
    WITH held AS MATERIALIZED (
        SELECT l.name FROM leases l JOIN pg_locks k ON k.locktype = 'advisory' AND k.granted
        AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (k.classid::bigint << 32) | k.objid::bigint = hashtextextended('penstock:' || l.name, 0))
"""


def collect(catalog: Catalog, home: Home, grace: float) -> int:
    """Remove what nobody can be reading any more, `grace` seconds after it was forgotten; the bytes that gave."""
    found = catalog.all(_HELD + _REMOVABLE, grace)
    remove(catalog, home, [row["path"] for row in found])
    return sum(row["bytes"] for row in found)


def remove_unread(catalog: Catalog, home: Home) -> int:
    """What copies that were given up or completed left: nobody but the source's own capture ever reads it."""
    found = [row["path"] for row in catalog.all("SELECT path FROM dropped_files WHERE relation_id IS NULL")]
    remove(catalog, home, found)
    return len(found)


def remove_of(catalog: Catalog, home: Home, relation_ids: Iterable[int]) -> None:
    """A relation that somebody removed goes at once, whoever is reading it."""
    found = catalog.all("SELECT path FROM dropped_files WHERE relation_id = ANY(%s)", list(relation_ids))
    remove(catalog, home, [row["path"] for row in found])


def forget_under(catalog: Catalog, folder: str) -> None:
    """A whole folder was removed."""
    catalog.connection.execute("DELETE FROM dropped_files WHERE starts_with(path, %s)", (folder,))


def remove(catalog: Catalog, home: Home, paths: list[str]) -> None:
    if not paths:
        return
    known = catalog.all(
        "SELECT path FROM segments WHERE path = ANY(%s) UNION SELECT path FROM copy_files WHERE path = ANY(%s)",
        paths, paths,
    )  # fmt: skip
    assert not known, f"still in use: {known[0]['path']}"
    folders = set()
    for path in paths:
        segment.remove(home.path(path))
        folders.add(home.path(path).parent)
    hit("collect.files_removed")
    catalog.connection.execute("DELETE FROM dropped_files WHERE path = ANY(%s)", (paths,))
    for folder in sorted(folders):
        _remove_empty(folder, home.changelog())


def _remove_empty(folder: Path, root: Path) -> None:
    """An hour's folder without files, and those above it. One that is in use, or of this hour, is left."""
    hour = folder.relative_to(root).parts[-4:]
    if hour >= tuple(f"{datetime.now(UTC) - timedelta(hours=1):%Y/%m/%d/%H}".split("/")):
        return
    for one in (folder, *folder.parents):
        if one == root:
            return
        try:
            one.rmdir()
        except FileNotFoundError:
            continue  # another process was faster
        except OSError:
            return  # it is not empty


def size(catalog: Catalog) -> tuple[int, int]:
    """How many files wait for their removal, and how many bytes."""
    row = catalog.one("SELECT count(*) AS files, coalesce(sum(bytes), 0)::bigint AS bytes FROM dropped_files")
    assert row is not None
    return row["files"], row["bytes"]
