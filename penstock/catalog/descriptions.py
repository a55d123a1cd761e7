"""Files that describe segments, where they were not written with them: of segments that are still in the catalog.

What was owed by a process that crashed is found by `write_missing`. A description that cannot be written is logged, and
tried again by the next look at all segments: nothing depends on it.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from penstock.catalog.relations import SEGMENT
from penstock.catalog.store import Catalog
from penstock.errors import StorageFull
from penstock.relation.home import Home, Owed
from penstock.relation.segment import Segment, describe, description_path, sync

log = logging.getLogger("penstock.changelog")

_SETTLED = 60.0  # seconds after which a segment is mostly in the catalog, or has been put together with others
_FORGOTTEN = 3600.0  # by then all segments are looked at


def write_owed(catalog: Catalog, home: Home, *, age: float = _SETTLED) -> int:
    """Describe what this process wrote so many seconds ago and has not put together with others since."""
    taken: list[Owed] = []
    while home.owed and time.monotonic() - home.owed[0].at >= age:
        taken.append(home.owed.popleft())
    if not taken:
        return 0
    paths = [one.segment.path for one in taken]
    rows = catalog.all(
        "SELECT path FROM segments WHERE path = ANY(%s) UNION ALL SELECT path FROM copy_files WHERE path = ANY(%s)",
        paths, paths,
    )  # fmt: skip
    known = {row["path"] for row in rows}
    for one in taken:  # a commit may come late
        unknown = one.segment.path not in known
        if unknown and time.monotonic() - one.at < _FORGOTTEN and home.path(one.segment.path).exists():
            home.owed.append(one)
    return _write(home, [(one.folder, one.segment) for one in taken if one.segment.path in known])


def write_missing(catalog: Catalog, home: Home) -> int:
    """The same for all segments of the catalog, whoever wrote them."""
    rows = catalog.all(
        f"SELECT r.folder, {SEGMENT} FROM segments s JOIN relations r ON r.id = s.relation_id ORDER BY s.id"
    )
    found = [(row.pop("folder"), Segment.from_row(row)) for row in rows]
    return _write(home, [one for one in found if not description_path(home.path(one[1].path)).exists()])


def _write(home: Home, found: Iterable[tuple[str, Segment]]) -> int:
    written: defaultdict[Path, list[Path]] = defaultdict(list)
    try:
        for folder, one in found:
            if home.path(one.path).exists():
                beside = describe(home, folder, one)
                written[beside.parent].append(beside)
        for files in written.values():
            sync(*files)
    except (OSError, StorageFull) as error:  # also where somebody drops the relation meanwhile
        log.warning("some segments are not described yet: %s", error)
    return sum(map(len, written.values()))
