"""All Delta tables at once: which of them equal their relation at a frontier, in few queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.catalog import stream_tables
from penstock.catalog.relations import Base
from penstock.catalog.store import Catalog, Commit
from penstock.cut import Frontier
from penstock.lsn import Lsn

_NEWEST = """
    SELECT r.id, r.name, r.folder, r.kind, s.name AS source, b.position, b.delta_version, b.rows,
           c.cut <> b.position AND EXISTS (
               SELECT FROM segments g WHERE g.relation_id = r.id AND g.form = 'settled'
               AND g.high > least(b.position, c.cut) AND g.low <= greatest(b.position, c.cut)) AS moved
    FROM relations r
    JOIN LATERAL (SELECT * FROM bases WHERE relation_id = r.id ORDER BY position DESC LIMIT 1) b ON true
    LEFT JOIN sources s ON s.id = r.source_id
    LEFT JOIN unnest(%s::text[], %s::bigint[]) AS c(source, cut) ON c.source = s.name
    WHERE NOT r.retired AND r.kind <> 'state' ORDER BY r.name
"""


@dataclass(frozen=True)
class Placed:
    """The newest base of a relation; `same`: it equals the relation at the frontier that was asked for."""

    name: str
    folder: str
    base: Base
    frontier: Frontier
    same: bool


def at(catalog: Catalog, frontier: Frontier) -> list[Placed]:
    """Relations that have a Delta table. Where it cannot be told without reading rows, `same` is False."""
    rows = catalog.all(_NEWEST, list(frontier), [int(cut) for cut in frontier.values()])
    found = []
    for row in rows:
        base = Base(row["position"], row["delta_version"], row["rows"])
        if row["kind"] == "table":
            same = row["moved"] is False
            own = frontier.only([row["source"]]) if same else Frontier({row["source"]: Lsn(base.position)})
        else:
            own = stream_tables.frontier_at(catalog, row["id"], base.position) or Frontier()
            there = stream_tables.round_at(catalog, row["id"], frontier.only(own))
            same = there is not None and not _changed(catalog, row["id"], base.position, there)
            own = frontier.only(own) if same else own
        found.append(Placed(row["name"], row["folder"], base, own, same))
    return found


def version_at(catalog: Catalog, relation_id: int, position: int) -> int | None:
    """The Delta version at, or the last one before, a position."""
    row = catalog.one(
        "SELECT max(delta_version) AS version FROM bases WHERE relation_id = %s AND position <= %s",
        relation_id, position,
    )  # fmt: skip
    return None if row is None else row["version"]


def made_at(catalog: Catalog, relation_id: int, version: int) -> datetime | None:
    """When a Delta version was recorded."""
    row = catalog.one(
        "SELECT min(o.committed_at) AS at FROM bases b JOIN rounds o ON o.id = b.round "
        "WHERE b.relation_id = %s AND b.delta_version = %s",
        relation_id, version,
    )  # fmt: skip
    return None if row is None else row["at"]


def oldest(catalog: Catalog, relation_id: int) -> datetime | None:
    """When the oldest Delta version that is known was recorded."""
    row = catalog.one(
        "SELECT min(o.committed_at) AS at FROM bases b JOIN rounds o ON o.id = b.round WHERE b.relation_id = %s",
        relation_id,
    )
    return None if row is None else row["at"]


def forget_before(commit: Commit, relation_id: int, moment: datetime) -> None:
    """Forget versions that a VACUUM may have taken files from: those that were replaced before `moment`."""
    commit.connection.execute(
        "DELETE FROM bases b WHERE b.relation_id = %s AND EXISTS ("
        "  SELECT FROM bases n JOIN rounds o ON o.id = n.round WHERE n.relation_id = b.relation_id"
        "  AND n.delta_version > b.delta_version AND o.committed_at < %s)",
        (relation_id, moment),
    )


def _changed(catalog: Catalog, relation_id: int, one: int, other: int) -> bool:
    low, high = sorted((one, other))
    row = catalog.one(
        "SELECT EXISTS (SELECT FROM segments WHERE relation_id = %s AND form = 'settled' AND high > %s AND low <= %s) "
        "AS ok",
        relation_id, low, high,
    )  # fmt: skip
    return low != high and bool(row and row["ok"])
