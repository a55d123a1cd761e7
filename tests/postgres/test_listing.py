"""A listing that reads only what is new gives what reading everything gives, whatever came and went in between."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random

import pytest

import penstock
from penstock.catalog import relations
from penstock.catalog.listing import Listing
from penstock.catalog.store import Catalog
from penstock.relation.schema import Column, Schema
from penstock.relation.segment import Segment
from penstock.relation.types import PgType

SCHEMA = Schema((Column("id", PgType(23, -1, "integer"), "int"),))
LAST = (1 << 62) - 1
_BESIDE = """
    INSERT INTO segments (relation_id, attempt_id, round, waiting, path, rows, bytes, low, high, version, form, ranges)
    SELECT %s, min(id), min(id), false, 'f2', 1, 1, 2, 2, 1, 'settled', '{}' FROM attempts
"""


def made(catalog: Catalog, names: list[str]) -> list[int]:
    with catalog.lease("test") as lease, catalog.commit(lease, None, "test") as commit:
        return [relations.add(commit, name, "view", f"views/{name}", SCHEMA) for name in names]


def added(catalog: Catalog, relation: int, segments: list[Segment]) -> None:
    with catalog.lease("test") as lease, catalog.commit(lease, None, "test") as commit:
        relations.record_segments(commit, relation, segments)


def removed(catalog: Catalog, paths: list[str]) -> None:
    catalog.connection.execute("DELETE FROM segments WHERE path = ANY(%s)", (paths,))


def one(number: int, low: int, high: int) -> Segment:
    return Segment(f"f{number}", 1, 1, low, high)


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_reading_everything_gives(ps: penstock.Session, seed: int) -> None:
    dice, catalog, listing = Random(seed), ps.catalog, Listing()
    ids = made(catalog, ["a", "b"])
    there: list[str] = []
    number = 0
    for step in range(40):
        relation = dice.choice(ids)
        if there and dice.random() < 0.3:  # as compaction does: several out, one in, in between the others
            gone = dice.sample(there, min(len(there), dice.randint(1, 4)))
            removed(catalog, gone)
            there = [path for path in there if path not in gone]
        for _ in range(dice.randint(0, 3)):
            number += 1
            low = dice.randint(0, step * 10 + 5)
            added(catalog, relation, [one(number, low, low + dice.randint(0, 5))])
            there.append(f"f{number}")
        after = {id_: dice.choice([-1, 0, dice.randint(0, step * 10 + 5)]) for id_ in ids}
        found = listing.segments(catalog, after)
        for id_, position in after.items():
            assert found[id_].within(position, LAST) == relations.segments(catalog, id_, position, LAST)


@contextmanager
def one_that_ends_late(catalog: Catalog, relation: int) -> Iterator[None]:
    """Two commits at once: f1 is numbered first, and f2 is there before it."""
    with catalog.lease("slow") as lease, catalog.another() as beside, catalog.commit(lease, None, "test") as commit:
        relations.record_segments(commit, relation, [one(1, 1, 1)])
        beside.execute(_BESIDE, (relation,))
        yield


def test_a_segment_that_was_numbered_before_others_and_came_after_them_is_seen(ps: penstock.Session) -> None:
    (relation,) = made(ps.catalog, ["a"])
    listing = Listing()
    with one_that_ends_late(ps.catalog, relation):
        assert seen(listing, ps.catalog, relation) == ["f2"]
    assert seen(listing, ps.catalog, relation) == ["f1", "f2"]


def test_one_that_came_late_does_not_stand_in_for_one_that_went(ps: penstock.Session) -> None:
    """There are as many as before, and not the same."""
    (relation,) = made(ps.catalog, ["a"])
    listing = Listing()
    added(ps.catalog, relation, [one(0, 0, 0)])
    with one_that_ends_late(ps.catalog, relation):
        assert seen(listing, ps.catalog, relation) == ["f0", "f2"]
    removed(ps.catalog, ["f0"])
    assert seen(listing, ps.catalog, relation) == ["f1", "f2"]


def seen(listing: Listing, catalog: Catalog, relation: int) -> list[str]:
    """As another thread sees it: through a connection of its own."""

    def look() -> list[str]:
        try:
            return [segment.path for segment in listing.segments(catalog, {relation: -1})[relation].segments]
        finally:
            catalog.leave()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(look).result()
