"""Where everything stands when a round begins: read once, under the round's lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.catalog import changelog, relations, sources, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.catalog.stream_tables import StreamTable
from penstock.cut import Frontier
from penstock.errors import Busy
from penstock.refresh.positions import readable_of


class Leaves:
    """The captured tables that each stream table reads, through however many others."""

    def __init__(self, tables: Mapping[int, StreamTable]) -> None:
        self._tables = tables
        self._known: dict[int, frozenset[int]] = {}

    def __call__(self, relation_id: int) -> frozenset[int]:
        if relation_id not in self._tables:
            return frozenset({relation_id})
        if relation_id not in self._known:
            read = self._tables[relation_id].inputs
            self._known[relation_id] = frozenset().union(*map(self, read))
        return self._known[relation_id]


@dataclass(frozen=True)
class Standing:
    """`changed` has, for each captured table that is read, its source and the position of its last change; `states`
    what the operators of each view remember."""

    newest: Frontier
    target: Frontier
    known: Mapping[int, Relation]
    states: Mapping[int, Sequence[Relation]]
    tables: Mapping[int, StreamTable]
    changed: Mapping[int, tuple[str, int]]
    _leaves: list[Leaves] = field(default_factory=list, repr=False)

    @classmethod
    def read(cls, catalog: Catalog, to: Frontier | None = None) -> Standing:
        """The target is `to`, or all that is readable now."""
        there, every, states, streams, changed = catalog.ask(
            sources.EVERY, relations.EVERY, relations.STATES, stream_tables.EVERY, changelog.LAST_CHANGES
        )
        newest = readable_of(there)
        target = newest if to is None else to
        known = {relation.id: _at(catalog, relation, target) for relation in every}
        tables = {table.relation_id: table for table in streams}
        return cls(newest, target, known, states, tables, changed, [Leaves(tables)])

    @cached_property
    def inputs(self) -> dict[str, list[str]]:
        """What each stream table reads, by name."""
        return {
            table.name: [self.known[one].name for one in table.inputs if one in self.known]
            for table in self.tables.values()
        }

    @cached_property
    def by_name(self) -> dict[str, StreamTable]:
        return {table.name: table for table in self.tables.values()}

    def sources_of(self, relation_id: int) -> frozenset[str]:
        """The sources that a table belongs to, or that a view reads through any number of views."""
        leaves = self._leaves[0](relation_id)
        if not leaves <= self.known.keys():
            raise Busy(
                "a table that this reads is being copied again",
                hint="Let the copy end (catch_up() goes on with it), then try again; the last state stays readable.",
            )
        return frozenset(str(self.known[one].source) for one in leaves)

    def target_of(self, table: StreamTable) -> Frontier:
        return self.target.only(self.sources_of(table.relation_id))

    def is_quiet(self, table: StreamTable) -> bool:
        """Whether all tables that it reads can be read at the target and are there as they were at its last refresh."""
        read = [self.known[one] for one in table.inputs]
        ended = any(one.ended is not None and self.target[str(one.source)] > one.ended for one in read)
        return not ended and not is_changed(table, self._leaves[0](table.relation_id), self.changed)


def is_changed(table: StreamTable, leaves: frozenset[int], changed: Mapping[int, tuple[str, int]]) -> bool:
    """Whether one of these tables has changed after the stream table's frontier."""
    if table.frontier is None:
        return True
    found = [changed[one] for one in leaves if one in changed]
    return len(found) < len(leaves) or any(position > table.frontier.get(source, -1) for source, position in found)


def _at(catalog: Catalog, relation: Relation, target: Frontier) -> Relation:
    """A table in the shape it has at the target."""
    source = relation.source
    return relations.at(catalog, relation, target[source]) if source and source in target else relation
