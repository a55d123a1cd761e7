"""Files that describe segments, where they were not written with them: of segments that are still in the catalog.

What was owed by a process that crashed is found by `write_missing`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from penstock.catalog.relations import SEGMENT
from penstock.catalog.store import Catalog
from penstock.relation.home import Home
from penstock.relation.segment import Segment, describe, description_path, sync

_COMMITTED = 60.0  # seconds after which a segment is in the catalog, or will never be


def write_owed(catalog: Catalog, home: Home, *, age: float = _COMMITTED) -> int:
    """Describe what this process wrote so many seconds ago and has not put together with others since."""
    owed: dict[str, tuple[str, Segment]] = {}
    while home.owed and time.monotonic() - home.owed[0].at >= age:
        one = home.owed.popleft()
        owed[one.segment.path] = (one.folder, one.segment)
    if not owed:
        return 0
    rows = catalog.all(
        "SELECT path FROM segments WHERE path = ANY(%s) UNION ALL SELECT path FROM copy_files WHERE path = ANY(%s)",
        list(owed), list(owed),
    )  # fmt: skip
    return _write(home, [owed[row["path"]] for row in rows])


def write_missing(catalog: Catalog, home: Home) -> int:
    """The same for all segments of the catalog, whoever wrote them."""
    rows = catalog.all(
        f"SELECT r.folder, {SEGMENT} FROM segments s JOIN relations r ON r.id = s.relation_id ORDER BY s.id"
    )
    found = [(row.pop("folder"), Segment.from_row(row)) for row in rows]
    return _write(home, [one for one in found if not description_path(home.path(one[1].path)).exists()])


def _write(home: Home, found: Iterable[tuple[str, Segment]]) -> int:
    written = [describe(home, folder, one) for folder, one in found if home.path(one.path).exists()]
    for path in written:
        sync(path)
    return len(written)
