"""The settle step of a source: raw segments up to the captured cut become settled ones, in one commit for all tables.

Each commit of capture is settled as a unit against the state just before it, which includes what was settled before it
in the same step. Readers see the source's new cut only when all its tables are there.
"""

from __future__ import annotations

from penstock.catalog import relations, sources
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.failpoint import hit
from penstock.lake.reader import Reader
from penstock.lake.settle import settle
from penstock.lsn import Lsn
from penstock.relation import segment
from penstock.relation.segment import Segment, SegmentWriter


def settle_source(reader: Reader, catalog: Catalog, lease: Lease, name: str) -> Lsn:
    """Make everything captured readable; returns the source's readable cut."""
    source = sources.get(catalog, name)
    if source.captured is None or source.settled is None:
        return Lsn(0)
    if source.settled == source.captured and not relations.waiting(catalog, source.id):
        return source.settled
    attempt = catalog.begin(lease, "settle")
    settled = {
        relation.id: _settle_table(reader, relation, attempt, source.captured)
        for relation in relations.of_source(catalog, name)
    }
    hit("settle.files_written")
    with catalog.commit(lease, attempt, "settle") as commit:
        for relation_id, segments in settled.items():
            relations.settled(commit, relation_id, source.captured)
            relations.record_segments(commit, relation_id, segments)
        sources.settle(commit, source.id, source.captured)
    return source.captured


def _settle_table(reader: Reader, relation: Relation, attempt: int, until: int) -> list[Segment]:
    writer = SegmentWriter(reader.home, relation.folder, attempt)
    done: list[Segment] = []
    for group in relations.raw_groups(reader.catalog, relation.id, until):
        raw = segment.read(reader.home, group, relation.schema.arrow_raw())
        before = min(one.low for one in group) - 1
        there = reader.beside({relation.id: done})
        rows = settle(
            raw,
            relation.schema,
            lambda keys, there=there, before=before: there.lookup(relation, keys, before),  # type: ignore[misc]
            lambda there=there, before=before: there.rows_arrow(relation, before),  # type: ignore[misc]
        )
        done.append(writer.write(rows, min(s.low for s in group), max(s.high for s in group)))
    return done
