"""Files of attempts that never committed: collected by the next holder of the same lease, and by nobody else.

An attempt of an older epoch of a lease can no longer commit, so its files are nobody's. Those of the current epoch, or
of another lease, may be a live worker's and are left alone.
"""

from __future__ import annotations

import shutil

from penstock.catalog.lease import Lease
from penstock.catalog.store import Catalog
from penstock.relation.home import Home


def collect(catalog: Catalog, home: Home, lease: Lease) -> int:
    """Delete what dead attempts of this lease left behind; the number of files that were there."""
    dead = catalog.all(
        "SELECT id FROM attempts WHERE lease = %s AND epoch < %s AND state = 'open'", lease.name, lease.epoch
    )
    removed = 0
    for row in dead:
        for left in list(home.changelog("").glob(f"**/a{row['id']:08d}-*")):
            if left.is_dir():  # what Spark was writing
                shutil.rmtree(left)
            else:
                left.unlink()
            removed += 1
        catalog.connection.execute("UPDATE attempts SET state = 'collected' WHERE id = %s", (row["id"],))
    return removed
