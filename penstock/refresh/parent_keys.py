"""The foreign keys that a refresh may rely on: between tables that are here whole, and seen to hold at both ends.

A table of which rows are left out has none in its schema; what was seen is in the catalog, written down by capture.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog import foreign_keys
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.refresh.known_children import ParentKey

Ends = tuple[Relation, int, int]  # a relation at the start and at the end of a refresh


def parent_keys(catalog: Catalog, inputs: Sequence[Ends]) -> list[ParentKey]:
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
