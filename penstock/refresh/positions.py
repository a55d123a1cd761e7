"""From frontiers to positions: where a relation is when its sources are at a frontier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.catalog import sources, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.sources import Source
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import StreamTable
from penstock.cut import Frontier
from penstock.errors import Busy, NotRetained
from penstock.lsn import Lsn


def readable(catalog: Catalog) -> Frontier:
    """The frontier up to which everything captured can be read."""
    return readable_of(sources.every(catalog))


def readable_of(every: Iterable[Source]) -> Frontier:
    return Frontier({one.name: one.settled for one in every if one.settled is not None})


def sources_of(relation_id: int, known: Mapping[int, Relation], tables: Mapping[int, StreamTable]) -> frozenset[str]:
    """The sources that a table belongs to, or that a view reads through any number of views."""
    if relation_id not in known:
        raise Busy(
            "a table that this reads is being copied again",
            hint="Let the copy end (catch_up() goes on with it), then try again; the last state stays readable.",
        )
    relation = known[relation_id]
    if relation.source is not None:
        return frozenset({relation.source})
    reads = tables[relation_id].inputs
    return frozenset().union(*(sources_of(one, known, tables) for one in reads))


def position_at(catalog: Catalog, relation: Relation, frontier: Frontier) -> int:
    """The position of a relation at a frontier over (at least) its own sources."""
    if relation.source is not None:
        position = table_position(relation, frontier)
        now = sources.get(catalog, relation.source).settled
        if now is None or position > now:
            raise NotRetained(
                f"{relation.name} is readable up to {now}, not yet up to {Lsn(position)}",
                hint="Call catch_up() first, or ask for an earlier frontier.",
            )
        return position
    found = reached(catalog, relation, frontier)
    _check_retained(relation, found, f"at {frontier}")
    return found


def table_position(relation: Relation, frontier: Frontier) -> int:
    """The position of a captured table at a frontier that is known to be readable."""
    source = str(relation.source)
    if source not in frontier:
        raise NotRetained(f"{frontier} says nothing of source {source!r}, which {relation.name} is from")
    cut = frontier[source]
    if cut < relation.since:
        raise NotRetained(
            f"{relation.name} is readable from {Lsn(relation.since)} on, not at {cut}",
            hint="Its rows were copied at that point; what was before is not known here.",
        )
    if relation.ended is not None and cut > relation.ended:
        raise NotRetained(
            f"{relation.name} is readable up to {Lsn(relation.ended)}, not at {cut}: {relation.ended_because}",
            hint="Without a frontier, or at an earlier one, its last state can be read.",
        )
    _check_retained(relation, int(cut), f"at {cut}")
    return int(cut)


def reached(catalog: Catalog, relation: Relation, frontier: Frontier) -> int:
    """The round in which a stream table was at a frontier, whether or not its changes since are kept."""
    found = stream_tables.round_at(catalog, relation.id, frontier)
    if found is None:
        raise NotRetained(
            f"stream table {relation.name} was never refreshed to {frontier}",
            hint=f"Call refresh({relation.name!r}, to=…) with that frontier, or read it at one of its own: history().",
        )
    return found


def _check_retained(relation: Relation, position: int, asked: str) -> None:
    if position < relation.retained:
        raise NotRetained(
            f"{relation.name} cannot be read {asked} any more: the changes since are not kept",
            hint="Read it at a later frontier. A pin, or a longer changelog_retention, keeps what you need.",
        )
