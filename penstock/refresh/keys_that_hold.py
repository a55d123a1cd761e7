"""The keys that a refresh may rely on: a table's own, and foreign keys that were seen to hold at both ends.

A table of which rows are left out has no foreign keys in its schema; what was seen is in the catalog, written down by
capture. A key of its own counts where the table had the same shape at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog import foreign_keys
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.refresh.known_rows import Key, OwnKey, ParentKey

Ends = tuple[Relation, int, int]  # a relation at the start and at the end of a refresh


def keys_that_hold(catalog: Catalog, inputs: Sequence[Ends]) -> list[Key]:
    return [*_own_keys(inputs), *_parent_keys(catalog, inputs)]


def _own_keys(inputs: Sequence[Ends]) -> list[OwnKey]:
    return [
        OwnKey(relation.name, relation.schema.key)
        for relation, before, _ in inputs
        if relation.schema.key and (relation.version == 1 or relation.shaped <= before)
    ]


def _parent_keys(catalog: Catalog, inputs: Sequence[Ends]) -> list[ParentKey]:
    """Keys between the tables of one source, at the least start and the greatest end of them."""
    found: list[ParentKey] = []
    tables = [one for one in inputs if one[0].kind == "table"]
    for source in sorted({str(relation.source) for relation, _, _ in tables if relation.schema.foreign_keys}):
        own = {relation.table: relation for relation, _, _ in tables if relation.source == source}
        since = min(before for relation, before, _ in tables if relation.source == source)
        until = max(after for relation, _, after in tables if relation.source == source)
        for child, key in foreign_keys.holding(catalog, source, since, until):
            if child in own and key.parent in own and key in own[child].schema.foreign_keys:
                found.append(ParentKey(own[child].name, key.columns, own[key.parent].name, key.parent_columns))
    return found
