"""Foreign keys that were seen on a source, and the cuts between which they hold.

A key that is seen again, unchanged, held all the time between; one that is not seen is forgotten, and starts anew when
it comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import DictRow

from penstock.catalog.store import Catalog, Connection, Question
from penstock.lsn import Lsn
from penstock.relation.schema import ForeignKey


@dataclass(frozen=True)
class Sighting:
    """A key of table `child`: it holds from `since` on and did up to `until`. `identity` tells if it was touched."""

    identity: str
    child: str
    key: ForeignKey
    since: Lsn
    until: Lsn


def saw(connection: Connection, source_id: int, seen: Sequence[Sighting], *, again: bool = False) -> None:
    """All keys that hold now; what is not among them does not. In one transaction, which is the caller's.

    `again`: the same keys as those that were written down last.
    """
    if again:
        connection.execute(
            "UPDATE foreign_keys f SET until = GREATEST(f.until, n.until) "
            "FROM unnest(%s::text[], %s::bigint[]) n (identity, until) "
            "WHERE f.source_id = %s AND f.identity = n.identity",
            ([one.identity for one in seen], [int(one.until) for one in seen], source_id),
        )
        return
    connection.execute(
        "DELETE FROM foreign_keys WHERE source_id = %s AND identity <> ALL(%s)",
        (source_id, [one.identity for one in seen]),
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO foreign_keys VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (source_id, identity) DO UPDATE SET until = GREATEST(foreign_keys.until, excluded.until)",
            [
                (source_id, one.identity, one.child, list(one.key.columns), one.key.parent,
                 list(one.key.parent_columns), int(one.since), int(one.until))
                for one in seen
            ],
        )  # fmt: skip


Held = list[tuple[str, ForeignKey]]
"""Keys by child."""


def holding(catalog: Catalog, source: str, since: int, until: int) -> Held:
    """The keys that hold at every cut from `since` to `until`."""
    return catalog.answer(which_hold(source, since, until))


def which_hold(source: str, since: int, until: int) -> Question[Held]:
    return Question(
        "SELECT child, columns, parent, parent_columns FROM foreign_keys f JOIN sources s ON s.id = f.source_id"
        " WHERE s.name = %s AND f.since <= %s AND f.until >= %s ORDER BY identity",
        _held,
        (source, int(since), int(until)),
    )


def _held(rows: list[DictRow]) -> Held:
    return [
        (row["child"], ForeignKey(tuple(row["columns"]), row["parent"], tuple(row["parent_columns"]))) for row in rows
    ]
