"""The keys that a refresh may rely on: a table's own, and foreign keys that were seen to hold at both ends.

A table of which rows are left out has no foreign keys in its schema; what was seen is in the catalog, written down by
capture. A key of its own counts where the table had the same shape at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.catalog.foreign_keys import Held
from penstock.catalog.relations import Relation
from penstock.refresh.known_rows import Key, OwnKey, ParentKey

Ends = tuple[Relation, int, int]  # a relation at the start and at the end of a refresh


Holding = Callable[[str, int, int], Held]
"""The foreign keys of a source that hold from one position to another."""


def keys_that_hold(holding: Holding, inputs: Sequence[Ends]) -> list[Key]:
    return [*_own_keys(inputs), *_parent_keys(holding, inputs)]


def spans(inputs: Sequence[Ends]) -> Iterator[tuple[str, int, int]]:
    """What `holding` will be asked for: of each source, the least start and the greatest end of its tables."""
    tables = [one for one in inputs if one[0].kind == "table"]
    for source in sorted({str(relation.source) for relation, _, _ in tables if relation.schema.foreign_keys}):
        ends = [(before, after) for relation, before, after in tables if relation.source == source]
        yield source, min(before for before, _ in ends), max(after for _, after in ends)


def _own_keys(inputs: Sequence[Ends]) -> list[OwnKey]:
    return [
        OwnKey(relation.name, relation.schema.key)
        for relation, before, _ in inputs
        if relation.schema.key and (relation.version == 1 or relation.shaped <= before)
    ]


def _parent_keys(holding: Holding, inputs: Sequence[Ends]) -> list[ParentKey]:
    """Keys between the tables of one source."""
    found: list[ParentKey] = []
    for source, since, until in spans(inputs):
        own = {one.table: one for one, _, _ in inputs if one.kind == "table" and one.source == source}
        for child, key in holding(source, since, until):
            if child in own and key.parent in own and key in own[child].schema.foreign_keys:
                found.append(ParentKey(own[child].name, key.columns, own[key.parent].name, key.parent_columns))
    return found
