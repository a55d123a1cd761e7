"""How a difference between the known shape and a Relation message is understood, with the catalog at, or past, it."""

from __future__ import annotations

import pytest

from penstock.capture.evolution import CatalogColumn, CatalogTable, Known, evolve
from penstock.capture.messages import Relation, RelationColumn
from penstock.relation.schema import Column, ReplicaIdentity, Schema
from penstock.relation.types import PgType

INT, BIGINT, TEXT = 23, 20, 25
KNOWN = Schema(
    tuple(Column.of(name, PgType(INT, -1, "integer"), attnum=at) for at, name in enumerate("iab", 1)),
    key=("i",),
    identity=ReplicaIdentity.DEFAULT,
)


def relation(*names: str, oid: int = 9, table: str = "t", **types: int) -> Relation:
    columns = tuple(RelationColumn(name, types.get(name, INT), -1, name == "i") for name in names)
    return Relation(oid, "public", table, "d", columns)


def catalog(*columns: str, filenode: int = 7, table: str = "t") -> CatalogTable:
    """Columns as name, attnum and perhaps the missing value: `c4=5`; a dropped one is `-2`."""
    found = []
    for text in columns:
        place, _, missing = text[1:].partition("=")
        found.append(CatalogColumn(text[0], int(place), INT, -1, dropped=text[0] == "-", missing=missing or None))
    return CatalogTable(f"public.{table}", filenode, "d", tuple(found))


CASES = [
    # names alone tell nothing for certain
    (relation("i", "x", "b"), None, ["column_added x False", "column_dropped a False"]),
    (relation("i", "b"), None, ["column_dropped a False"]),
    (relation("i", "b", "a"), None, ["column_replaced i,b,a False"]),
    (relation("i", "a", "b", "c"), None, ["column_added c False"]),
    # attnums do
    (relation("i", "x", "b"), catalog("i1", "x2", "b3"), ["column_renamed x True"]),
    (relation("i", "a", "x"), catalog("i1", "a2", "x3"), ["column_renamed x True"]),
    (relation("i", "b"), catalog("i1", "-2", "b3"), ["column_dropped a True"]),
    (relation("i", "b"), catalog("i1", "b2", "-3"), ["column_renamed b True"]),
    (relation("i", "b", "a"), catalog("i1", "b2", "a3"), ["column_renamed b True", "column_renamed a True"]),
    # unless the catalog is ahead
    (relation("i", "x", "b"), catalog("i1", "-2", "b3"), ["column_added x False", "column_dropped a False"]),
    (relation("i", "a", "x"), catalog("i1", "x2", "a3"), ["column_added x False", "column_dropped b False"]),
    # a column that is gone and a new one of its type could be one that was renamed and made again since
    (relation("i", "a", "x"), catalog("i1", "a2", "-3", "x4"), ["column_added x False", "column_dropped b True"]),
    # additions: what older rows have must be known
    (relation("i", "a", "b", "c"), catalog("i1", "a2", "b3", "c4"), ["column_added c True"]),
    (relation("i", "a", "b", "c"), catalog("i1", "a2", "b3", "c4", "d5"), ["column_added c True"]),
    (relation("i", "a", "b", "c"), catalog("i1", "a2", "b3", "c4=5"), ["column_added c True 5"]),
    (relation("i", "a", "b", "c"), catalog("i1", "a2", "b3", "c4", filenode=8), ["column_added c False"]),
    (relation("i", "a", "b", "c"), catalog("i1", "a2", "b3", "-4"), ["column_added c False"]),
    (relation("i", "a", "b", "c"), catalog("i1", "a2", "b3", "-4", "c5=6"), ["column_added c False"]),
    # added, renamed, and another added under its name since: which of both was announced, nobody knows
    (relation("i", "a", "b", "c"), catalog("i1", "a2", "b3", "d4", "c5"), ["column_added c False"]),
    # left out by a publication, not dropped
    (relation("i", "a"), catalog("i1", "a2", "b3"), ["column_dropped b False"]),
    (relation("i", "b"), catalog("i1", "a2", "b3"), ["column_dropped a False"]),
    # dropped and made again under the same name
    (relation("i", "a", "b"), catalog("i1", "a2", "-3", "b4"), ["column_replaced b False"]),
    # types
    (relation("i", "a", "b", b=BIGINT), None, ["type_changed b False"]),
    # the key
    (relation("k", "a", "b"), catalog("k1", "a2", "b3"), ["column_renamed k True", "key_changed  False"]),
    # the table
    (relation("i", "a", "b", table="u"), catalog("i1", "a2", "b3", table="u"), ["table_renamed  True"]),
    (relation("i", "a", "b", oid=10), None, ["table_recreated  False"]),
]


@pytest.mark.parametrize(("announced", "found", "said"), CASES)
def test_what_became_of_it(announced: Relation, found: CatalogTable | None, said: list[str]) -> None:
    evolved = evolve("public.t", 9, KNOWN, Known(7, 3), announced, found)
    texts = [
        f"{change.kind} {','.join(change.columns)} {change.lossless}" + (f" {change.default}" if change.default else "")
        for change in evolved.changes
    ]
    assert texts == said


def test_a_type_that_changed_without_a_rewrite_keeps_its_values() -> None:
    found = CatalogTable("public.t", 7, "d", (*catalog("i1", "a2").columns, CatalogColumn("b", 3, TEXT, -1)))
    (change,) = evolve("public.t", 9, KNOWN, Known(7, 3), relation("i", "a", "b", b=TEXT), found).changes
    assert (change.kind, change.lossless, change.rewrite) == ("type_changed", True, False)
    (change,) = evolve("public.t", 9, KNOWN, Known(), relation("i", "a", "b", b=TEXT), found).changes
    assert (change.lossless, change.rewrite) == (False, True)
