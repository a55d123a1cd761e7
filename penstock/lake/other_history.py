"""A Delta table that is ahead of its catalog: somebody put back an older catalog and left the folder as it was.

A commit that a crash kept out of the catalog reached a frontier that the catalog knows. One that reached another
is of a history that this catalog has lost, and whose rounds it may give out again.
"""

from __future__ import annotations

from penstock.catalog import sources
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.errors import PublishError
from penstock.lake.delta_log import Stamp


def check_known(catalog: Catalog, relation: Relation, stamp: Stamp) -> None:
    """Raise unless the catalog knows the frontier that a commit is stamped with."""
    if not _is_known(catalog, relation, stamp):
        raise PublishError(
            f"the Delta table of {relation.name} is at {stamp.frontier}, which this catalog has never been at: the "
            "catalog was put back to an earlier moment than the folder",
            hint="Restore both from one backup; see docs/backup.md.",
        )


def _is_known(catalog: Catalog, relation: Relation, stamp: Stamp) -> bool:
    if relation.source is not None:
        readable = sources.get(catalog, relation.source).settled
        return readable is not None and stamp.position <= readable
    row = catalog.one(
        "SELECT EXISTS (SELECT FROM frontiers f JOIN relations r ON f.relation_id = coalesce(r.owner_id, r.id) "
        "WHERE r.id = %s AND f.round = %s AND f.frontier = %s::jsonb) AS ok",
        relation.id, stamp.position, stamp.frontier,
    )  # fmt: skip
    return row is not None and bool(row["ok"])
