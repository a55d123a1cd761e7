"""The upkeep of the changelog: one step that anybody may take at any time, and that changes no answer.

In order: what nobody needs is forgotten; small segments are put together, each group in one commit; those that are left
are described, if they are not; files of dead workers, and those forgotten long enough ago, leave the disk; rows of the
catalog that are over go. A crash anywhere leaves either what was or what is to be, and files that the next step
removes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.catalog import attempts, changelog, descriptions, dropped, pins, relations
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.config import Settings
from penstock.failpoint import hit
from penstock.refresh import retention
from penstock.refresh.retention import Released, keep_from, needs
from penstock.relation import compaction
from penstock.relation.compaction import LEAST
from penstock.relation.home import Home
from penstock.relation.rotation import ROTATION, Rotation
from penstock.relation.segment import Segment, SegmentWriter

LEASE = "changelog"
__all__ = ["LEASE", "LEAST", "Maintained", "compact", "maintain"]
_BYTES = 512 << 20  # put together in one step: what is left comes with the next
log = logging.getLogger("penstock.changelog")


@dataclass(frozen=True)
class Maintained:
    """What a step did: bytes forgotten and who lost them, files put together, bytes off the disk, rows pruned."""

    released: Released
    merged: int
    into: int
    collected: int
    pruned: int


def maintain(home: Home, catalog: Catalog, settings: Settings, *, least: int = LEAST, sweep: bool = True) -> Maintained:
    """Take one step; Busy if another process is at it. `sweep` lists all files to find those of dead workers."""
    with catalog.lease(LEASE) as lease:
        attempts.collect(catalog, home, lease)
        pins.release_abandoned(catalog)
        released = retention.release(catalog, lease, settings.changelog_retention, settings.changelog_limit)
        merged, into = compact(home, catalog, lease, least=least)
        descriptions.write_owed(catalog, home)
        collected = dropped.collect(catalog, home, settings.changelog_grace)
        if sweep:
            attempts.sweep(catalog, home)
            descriptions.write_missing(catalog, home)
        before = datetime.now(UTC) - timedelta(seconds=max(settings.changelog_retention, settings.changelog_grace))
        pruned = changelog.prune(catalog, before, keep_from(needs(catalog, settings.changelog_retention)))
    return Maintained(released, merged, into, collected, pruned)


def compact(
    home: Home, catalog: Catalog, lease: Lease, *, least: int = LEAST, rotation: Rotation = ROTATION
) -> tuple[int, int]:
    """Put small segments together; how many, and into how many."""
    merged = into = size = 0
    found = changelog.fragmented(catalog, compaction.small(rotation), least)
    for relation in sorted(relations.by_id(catalog, found), key=lambda one: found.index(one.id)):
        if relation.kind != "table" and "_lsn" in relation.schema.names:  # its segments cannot carry positions
            continue
        known = relations.segments(catalog, relation.id, relation.retained, (1 << 62) - 1)
        bases = relations.bases(catalog, relation.id)
        for group in compaction.plan(known, bases[0].position if bases else -1, rotation, least):
            if size > _BYTES:
                return merged, into
            size += sum(one.bytes for one in group)
            done = _merge(home, catalog, lease, relation, group, rotation)
            merged, into = merged + len(group) * (done > 0), into + done
    return merged, into


def _merge(
    home: Home, catalog: Catalog, lease: Lease, relation: Relation, group: list[Segment], rotation: Rotation
) -> int:
    attempt = catalog.begin(lease, "compact")
    new = compaction.merge(home, SegmentWriter(home, relation.folder, attempt), group, rotation)
    hit("compact.files_written")
    try:
        with catalog.commit(lease, attempt, "compact") as commit:
            if not changelog.replace(commit, relation.id, group, new):
                raise _Overtaken
    except _Overtaken:
        log.info("segments of %s were dropped while they were put together", relation.name)
        attempts.give_up(catalog, home, attempt)
        return 0
    log.info("%s: %d segments put together into %d", relation.name, len(group), len(new))
    return len(new)


class _Overtaken(Exception):
    """Somebody dropped segments of the group meanwhile: nothing is changed."""
