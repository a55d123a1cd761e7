"""Files of attempts that never committed: those of an older epoch of their lease, which can no longer commit.

Files of the current epoch may be a live worker's and are left alone. A worker that was replaced may write on for a
while; what it writes is found by the next `sweep`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from penstock.catalog.lease import Lease
from penstock.catalog.store import Catalog
from penstock.relation.home import Home


def collect(catalog: Catalog, home: Home, lease: Lease) -> int:
    """Delete what dead attempts of this lease left behind; the number of files that were there."""
    dead = catalog.all(
        "SELECT id FROM attempts WHERE lease = %s AND epoch < %s AND state = 'open'", lease.name, lease.epoch
    )
    return _remove(catalog, home, {row["id"] for row in dead})


def give_up(catalog: Catalog, home: Home, attempt: int) -> None:
    """An attempt of our own that will not commit."""
    _remove(catalog, home, {attempt})


def _remove(catalog: Catalog, home: Home, numbers: set[int]) -> int:
    if not numbers:
        return 0
    removed = 0
    for left in _files(home):
        if attempt_of(left) in numbers:
            removed += _delete(left)
    catalog.connection.execute("UPDATE attempts SET state = 'collected' WHERE id = ANY(%s)", (list(numbers),))
    return removed


def sweep(catalog: Catalog, home: Home) -> int:
    """Delete every file that is nobody's: of an attempt that is over, or can never commit, and not in the catalog.

    The files are listed before the catalog is asked, so what commits meanwhile is known; an attempt younger than the
    newest known then has not been asked about, and its files are left.
    """
    newest = catalog.one("SELECT coalesce(max(id), 0) AS id FROM attempts")
    assert newest is not None
    files = {file: attempt_of(file) for file in _files(home)}
    live = {
        row["id"]
        for row in catalog.all(
            "SELECT a.id FROM attempts a JOIN leases l ON l.name = a.lease WHERE a.state = 'open' AND a.epoch = l.epoch"
        )
    }
    known = {
        row["path"]
        for row in catalog.all(
            "SELECT path FROM segments UNION ALL SELECT path FROM copy_files UNION ALL SELECT path FROM dropped_files"
        )
    }
    removed = 0
    for file, attempt in files.items():
        over = attempt is not None and attempt <= newest["id"] and attempt not in live
        if over and home.relative(file.with_suffix(".parquet")) not in known:
            removed += _delete(file)
    return removed


def _files(home: Home) -> list[Path]:
    return list(home.changelog().glob("**/*a*-*"))


def _delete(left: Path) -> bool:
    """True for a file of rows, or a folder that Spark was writing."""
    if left.is_dir():
        shutil.rmtree(left)
    else:
        left.unlink(missing_ok=True)
    return left.suffix != ".json"


def attempt_of(file: Path) -> int | None:
    """The attempt that a file's name carries.

    >>> attempt_of(Path("public.orders_a00000012-0001.parquet")), attempt_of(Path("notes.parquet"))
    (12, None)
    """
    found = re.search(r"(?:^|_)a(\d{8,})-\d{4,}\.", file.name)
    return int(found[1]) if found else None
