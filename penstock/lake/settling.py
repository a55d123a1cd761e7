"""The settle step of a source: raw segments up to the captured cut become settled ones, in one commit for all tables.

Each commit of capture is settled as a unit (a very large one in parts) against the state just before it, which includes
what was settled before it in the same step. Readers see the source's new cut only when all its tables are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog import relations, sources
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.store import Catalog
from penstock.failpoint import hit
from penstock.lake.reader import Reader
from penstock.lake.settle import settle
from penstock.lsn import Lsn
from penstock.relation import segment
from penstock.relation.rotation import ROTATION
from penstock.relation.segment import Segment, SegmentWriter

_CHUNK = 2_000_000  # rows of one table that are settled in memory at a time


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
    for raw, before in _chunks(reader, relation, until):
        there = reader.beside({relation.id: done})
        rows = settle(
            raw,
            relation.schema,
            lambda keys, there=there, before=before: there.lookup(relation, keys, before),  # type: ignore[misc]
            lambda there=there, before=before: there.rows_arrow(relation, before),  # type: ignore[misc]
        )
        for part in ROTATION.parts(rows) if rows.num_rows else ():
            positions = pc.min_max(part["_lsn"]).as_py()
            done.append(writer.write(part, positions["min"], positions["max"]))
    return done


def _chunks(reader: Reader, relation: Relation, until: int) -> Iterator[tuple[pa.Table, int]]:
    """What waits, in order, a bounded number of rows at a time, each with the position before it.

    A commit of capture is taken whole where it fits. One that does not is taken file by file; a transaction may then
    begin in one chunk and go on in the next, so what is before the latter includes the position it begins at.
    """
    for group in relations.raw_groups(reader.catalog, relation.id, until):
        for number, files in enumerate(_bounded(group)):
            raw = segment.read(reader.home, files, relation.schema.arrow_raw())
            low = min(one.low for one in files)
            yield raw, low if number else low - 1


def _bounded(group: Sequence[Segment]) -> Iterator[list[Segment]]:
    files: list[Segment] = []
    for one in group:
        if files and sum(other.rows for other in files) + one.rows > _CHUNK:
            yield files
            files = []
        files.append(one)
    yield files
