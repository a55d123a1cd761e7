"""Which changes are still needed, and by whom. A segment goes only when nobody needs it.

Of a relation, everything after p is needed by: its base at p (the newest state is base + changes); each stream table
that reads it and is at p; each pin at p (an earlier state is base − changes). And what is younger than the retention
stays, so that any frontier of that time can be read.

At the limit, room is made in this order: history that only the retention keeps; pins, oldest first; what stream tables
still have to read, which are then computed anew. Changes that are not in the base are the data itself and never go.
Long before any of it there is an alert that says who holds the changelog.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from penstock.catalog import alerts, changelog, pins, relations, stream_tables
from penstock.catalog.alerts import Alert
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.cut import Frontier
from penstock.errors import Busy
from penstock.refresh.positions import sources_of

log = logging.getLogger("penstock.changelog")

Kind = Literal["base", "stream table", "pin", "retention"]
_ALL: tuple[Kind, ...] = ("base", "stream table", "pin", "retention")
_BASES: tuple[Kind, ...] = ("base",)
NEAR = 0.8  # of the limit, from which on people are told
_NOWHERE = -1
_RESET = "stream_table_reset"


@dataclass(frozen=True)
class Need:
    """`who` needs all changes of a relation after `position`."""

    relation_id: int
    position: int
    kind: Kind
    who: str
    pin: int | None = None


def keep_from(needs: Iterable[Need]) -> dict[int, int]:
    """For each relation the position up to which nobody needs its changes.

    >>> keep_from([Need(1, 9, "base", "a"), Need(1, 5, "pin", "b"), Need(2, 7, "base", "c")])
    {1: 5, 2: 7}
    """
    least: dict[int, int] = {}
    for need in needs:
        least[need.relation_id] = min(need.position, least.get(need.relation_id, need.position))
    return least


@dataclass(frozen=True)
class Released:
    """What a step of retention did: bytes that nobody needed, and at the limit who lost what it held."""

    bytes: int
    pins: tuple[int, ...] = ()
    stream_tables: tuple[str, ...] = ()


def needs(catalog: Catalog, retention: float) -> list[Need]:
    """Everything that is needed now; each relation has at least its base."""
    places = _Places(catalog)
    readable = places.known.values()
    found = [
        Need(id_, _NOWHERE if position is None else position, "base", f"the Delta table of {name}")
        for id_, name, position in changelog.bases(catalog)
    ]
    found += _of_stream_tables(places)
    found += _of_pins(catalog, places)
    since = datetime.now(UTC) - timedelta(seconds=retention)
    who = f"history since {since:%Y-%m-%d %H:%M} UTC"
    young = changelog.too_young(catalog, since)
    found += [Need(one.id, young[one.id], "retention", who) for one in readable if one.id in young]
    return found


class _Places:
    """Where relations are at frontiers, with one look at the catalog for all that changes rarely."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.known = {one.id: one for one in relations.every(catalog)}
        self.tables = {table.relation_id: table for table in stream_tables.every(catalog)}

    def position(self, relation: Relation, frontier: Frontier) -> int | None:
        """None where it cannot be read there, so that nothing is needed for it."""
        if relation.source is not None:
            found: int | None = frontier.get(relation.source)
        else:
            try:
                sources = sources_of(relation.id, self.known, self.tables)
            except Busy:
                return None
            found = stream_tables.round_at(self._catalog, relation.id, frontier.only(sources))
        readable = max(relation.since, relation.retained)
        return None if found is None or found < readable else int(found)


def _of_stream_tables(places: _Places) -> list[Need]:
    read = [
        (table, places.known[one], places.position(places.known[one], table.frontier))
        for table in places.tables.values()
        if table.frontier is not None
        for one in table.inputs
        if one in places.known  # one that is being copied again will be read anew
    ]
    return [
        Need(relation.id, position, "stream table", table.name) for table, relation, position in read
        if position is not None
    ]  # fmt: skip


def _of_pins(catalog: Catalog, places: _Places) -> list[Need]:
    found = []
    for pin in pins.every(catalog):
        who = f"pin {pin.id} of {pin.created_at:%Y-%m-%d %H:%M}"
        for relation in places.known.values():
            position = places.position(relation, pin.frontier)
            if position is not None:
                found.append(Need(relation.id, position, "pin", who))
    return found


@dataclass(frozen=True)
class Held:
    """The changelog of one relation, and who needs the oldest of it."""

    name: str
    segments: int
    rows: int
    bytes: int
    oldest: str | None
    who: str

    @property
    def row(self) -> tuple[str, int, int, int, str | None, str]:
        return self.name, self.segments, self.rows, self.bytes, self.oldest, self.who


def held(catalog: Catalog, retention: float) -> list[Held]:
    """Largest first."""
    found = needs(catalog, retention)
    least = keep_from(found)
    names = {id_: name for id_, name, _ in changelog.bases(catalog)}
    lines = []
    for id_, size in changelog.sizes(catalog).items():
        if id_ in names:
            who = sorted({need.who for need in found if (need.relation_id, need.position) == (id_, least[id_])})
            oldest = None if size.oldest is None else f"{size.oldest:%Y-%m-%d %H:%M}"
            lines.append(Held(names[id_], size.segments, size.rows, size.bytes, oldest, ", ".join(who)))
    return sorted(lines, key=lambda line: -line.bytes)


def release(catalog: Catalog, lease: Lease, retention: float, limit: int | None) -> Released:
    """Drop what nobody needs, and past the limit what may go; tell people before that."""
    _clear_reset(catalog)
    start = left = changelog.size(catalog).bytes
    left -= _drop(catalog, lease, retention, _ALL)
    lost: list[int] = []
    reset: list[str] = []
    if limit is not None and left > limit:
        left -= _drop(catalog, lease, retention, ("base", "stream table", "pin"))
        for pin in pins.every(catalog):  # oldest first
            if left > limit:
                lost.append(pin.id)
                _tell_lost_pin(catalog, pin, limit)
                pins.release(catalog, pin.id)
                left -= _drop(catalog, lease, retention, ("base", "stream table", "pin"))
        if left > limit:
            freed, reset = _reset(catalog, lease, retention, limit)
            left -= freed
    _tell_size(catalog, left, limit, retention)
    return Released(start - left, tuple(lost), tuple(reset))


def _drop(catalog: Catalog, lease: Lease, retention: float, kinds: Collection[Kind]) -> int:
    """Forget what none of these kinds needs; bytes."""
    if not changelog.droppable(catalog, _keep(catalog, retention, kinds)):
        return 0
    with catalog.commit(lease, None, "retain") as commit:
        commit.connection.execute("LOCK TABLE pins IN SHARE MODE")  # a pin is before this, or finds it done
        keep = _keep(catalog, retention, kinds)
        gone = changelog.droppable(catalog, keep)
        changelog.drop(commit, keep)
    log.info("%d bytes of changes of %d relations dropped: nobody needs them", sum(gone.values()), len(gone))
    return sum(gone.values())


def _keep(catalog: Catalog, retention: float, kinds: Collection[Kind]) -> dict[int, int]:
    return keep_from(need for need in needs(catalog, retention) if need.kind in kinds)


def _tell_lost_pin(catalog: Catalog, pin: pins.Pin, limit: int) -> None:
    alerts.tell(
        catalog,
        Alert(
            "pin_lost",
            str(pin.id),
            f"pin {pin.id} of {pin.created_at:%Y-%m-%d %H:%M} was released: the changelog is over its limit of {limit} "
            "bytes",
            f"What it kept, {pin.frontier}, may not be readable any more. Raise changelog_limit to keep pins longer.",
        ),
    )


def _reset(catalog: Catalog, lease: Lease, retention: float, limit: int) -> tuple[int, list[str]]:
    """Keep of each relation only what is not in its base; the bytes, and the stream tables that had not read it."""
    late = [need for need in needs(catalog, retention) if need.kind == "stream table"]
    freed = _drop(catalog, lease, retention, _BASES)
    retained = {one.id: one.retained for one in relations.every(catalog)}
    names = sorted({need.who for need in late if need.position < retained.get(need.relation_id, _NOWHERE)})
    for name in names:
        alerts.tell(
            catalog,
            Alert(
                _RESET,
                name,
                f"changes that stream table {name} had not read were dropped: the changelog is over its limit of "
                f"{limit} bytes",
                "Its next refresh computes it anew. Refresh it more often, or raise changelog_limit.",
            ),
        )
    return freed, names


def _clear_reset(catalog: Catalog) -> None:
    """Stream tables that were computed anew since."""
    told = [alert.subject for alert in alerts.now(catalog) if alert.kind == _RESET]
    if told:
        places = _Places(catalog)
        tables = {table.name: table for table in places.tables.values()}
        reads = {name: len(tables[name].inputs) if name in tables else 0 for name in told}
        found = [need.who for need in _of_stream_tables(places)]
        for name in told:
            if found.count(name) == reads[name]:
                alerts.clear(catalog, _RESET, name)


def _tell_size(catalog: Catalog, left: int, limit: int | None, retention: float) -> None:
    if limit is None or left < NEAR * limit:
        alerts.clear(catalog, "changelog_size", "changelog")
        return
    found = needs(catalog, retention)
    bases = keep_from(need for need in found if need.kind == "base")
    late = {need.who for need in found if need.kind != "base" and need.position < bases[need.relation_id]}
    # Without any of them, all there is is what the Delta tables do not have yet.
    holders = sorted(late or {need.who for need in found if need.kind == "base"})
    named = ", ".join(holders[:8]) + (f" and {len(holders) - 8} more" if len(holders) > 8 else "")
    alerts.tell(
        catalog,
        Alert(
            "changelog_size",
            "changelog",
            f"the changelog has {left} bytes, {100 * left // limit} % of its limit; kept for {named}",
            "Publish, refresh, release pins, shorten changelog_retention or raise changelog_limit. At the limit "
            "history, then pins, then what stream tables have not read are given up; unpublished changes never.",
        ),
    )
