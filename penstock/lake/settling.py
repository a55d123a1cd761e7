"""The settle step of a source: raw segments up to the captured cut become settled ones, in one commit for all tables.

Each commit of capture is settled as a unit (a very large one in parts) against the state just before it, which includes
what was settled before it in the same step. Readers see the source's new cut only when all its tables are there.

A small commit is settled while it is still in memory (`AtOnce`), and is then written once, in its final form.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog import relations, sources
from penstock.catalog.lease import Lease
from penstock.catalog.relations import Relation
from penstock.catalog.sources import Source, is_partial
from penstock.catalog.store import Catalog, Question
from penstock.errors import PenstockError, RowUnknown
from penstock.failpoint import hit
from penstock.lake.reader import Reader
from penstock.lake.settle import removals, settle
from penstock.lsn import Lsn
from penstock.relation import segment
from penstock.relation.rotation import ROTATION
from penstock.relation.segment import Segment, SegmentWriter
from penstock.relation.translation import translation
from penstock.zset import ABSENT

log = logging.getLogger("penstock.lake")

_CHUNK = 2_000_000  # rows of one table that are settled in memory at a time
_LARGE = 1_000_000  # a TRUNCATE of a table with more rows is settled in parts


def settle_source(reader: Reader, catalog: Catalog, lease: Lease, name: str) -> Lsn:
    """Make everything captured readable; returns the source's readable cut."""
    source = sources.get(catalog, name)
    if source.captured is None or source.settled is None:
        return Lsn(0)
    if source.settled == source.captured and not relations.waiting_of(catalog, source.id):
        return source.settled
    attempt = catalog.begin(lease, "settle")
    waiting = relations.waiting_of(catalog, source.id)
    settled = {
        relation.id: _settle_table(
            reader, relation, attempt, source.captured, partial=is_partial(source.options, relation.table)
        )
        for relation in relations.by_id(catalog, waiting)
    }
    hit("settle.files_written")
    with catalog.commit(lease, attempt, "settle") as commit:
        for relation_id, segments in settled.items():
            relations.settled(commit, relation_id, source.captured)
            relations.record_segments(commit, relation_id, segments)
        sources.settle(commit, source.id, source.captured)
    return source.captured


class AtOnce:
    """Settles changes that are captured and not written yet."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last: dict[str, Relation] = {}  # by name

    def __call__(
        self, source: Source, raw: Mapping[str, tuple[int, pa.Table]], begin: Question[Any]
    ) -> dict[str, pa.Table]:
        """Of changes by table, with its version, those that can be settled now; `begin` is asked with the rest.

        The others are written as they are and wait: in front of them something waits, the table has a new shape, its
        rows are too many to be removed here, or they cannot be settled, which the settle step will tell.
        """
        there = self._reader.beside({})
        names = [f"{source.name}.{table}" for table in raw]
        supposed = [self._last[name] for name in names if name in self._last]
        _, settled = there.ask_before_lookups(supposed, begin, relations.settled_of_source(source.name))
        self._last |= {one.name: one for one in settled}
        found = [one for one in settled if one.table in raw and one.version == raw[one.table][0]]
        asked = {(one.id, one.version) for one in supposed}
        if new := [one for one in found if (one.id, one.version) not in asked]:
            there.ask_before_lookups(new)
        done: dict[str, pa.Table] = {}
        for relation in found:
            _, rows = raw[relation.table]
            before = pc.min(rows["_lsn"]).as_py() - 1
            if before < relation.shaped or (_truncates(rows) and _about(there, relation) > _LARGE):
                continue
            partial = is_partial(source.options, relation.table)
            try:
                done[relation.table] = _settled(there, relation, rows, before, partial)
            except PenstockError as error:
                log.info("changes of %s wait for the settle step: %s", relation.name, error.message)
        return done


def _settled(there: Reader, shape: Relation, raw: pa.Table, before: int, partial: bool) -> pa.Table:
    try:
        return settle(
            raw,
            shape.schema,
            lambda keys: there.lookup(shape, keys, before),
            lambda: there.rows_arrow(shape, before),
            partial=partial,
        )
    except RowUnknown as unknown:
        raise RowUnknown(
            f"{shape.name}: {unknown.message}",
            hint="Rows of it came that the WAL does not have, or the mirror and the source have parted otherwise; "
            f"`penstock verify` tells. Copy it again: ps.resync({shape.source!r}, {shape.table!r}).",
            table=shape.table,
        ) from unknown


def _truncates(raw: pa.Table) -> bool:
    return bool(pc.any(pc.equal(raw["_op"], "T")).as_py())


def _settle_table(reader: Reader, relation: Relation, attempt: int, until: int, *, partial: bool) -> list[Segment]:
    writer = SegmentWriter(reader.home, relation.folder, attempt)
    done: list[Segment] = []
    shapes: list[Relation] = []
    for files, goes_on in _chunks(reader, relation, until):
        shapes = shapes or _shapes(reader, relation)
        for number, (shape, raw, piece) in enumerate(_pieces(reader, relation, files, shapes)):
            low = pc.min(raw["_lsn"]).as_py()
            before = low if piece.goes_on or (goes_on and number == 0) else low - 1
            there = reader.beside({relation.id: done})
            if piece.truncate:
                done += _removed(there, writer, shape, raw, before)
                continue
            rows = _settled(there, shape, raw, before, partial)
            for part in ROTATION.parts(rows) if rows.num_rows else ():
                positions = pc.min_max(part["_lsn"]).as_py()
                done.append(writer.write(part, positions["min"], positions["max"], version=shape.version))
    return done


@dataclass(frozen=True)
class _Piece:
    """`goes_on`: in the transaction of the piece before. `truncate`: one TRUNCATE, of a table too large for memory."""

    goes_on: bool = False
    truncate: bool = False


def _pieces(
    reader: Reader, relation: Relation, files: Sequence[Segment], shapes: Sequence[Relation]
) -> Iterator[tuple[Relation, pa.Table, _Piece]]:
    """Rows of one shape each; of a large table, each TRUNCATE by itself."""
    for shape, raw in _by_shape(reader, files, shapes):
        if not _truncates(raw) or _about(reader, relation) <= _LARGE:
            yield shape, raw, _Piece()
            continue
        rows = raw.sort_by([("_lsn", "ascending"), ("_seq", "ascending")]).combine_chunks()
        alone = rows["_op"].to_numpy() == "T"
        cuts = np.flatnonzero(alone | np.concatenate([[True], alone[:-1]]))
        for start, end in zip(cuts, [*cuts[1:], rows.num_rows], strict=True):
            within = bool(start) and rows["_lsn"][int(start)] == rows["_lsn"][int(start) - 1]
            yield shape, rows.slice(int(start), int(end - start)), _Piece(within, bool(alone[start]))


def _about(reader: Reader, relation: Relation) -> int:
    base = reader.base(relation)
    return (base.rows if base else 0) + reader.changed_rows(relation, base.position if base else -1, 1 << 62)


def _removed(there: Reader, writer: SegmentWriter, shape: Relation, cause: pa.Table, before: int) -> list[Segment]:
    """What a TRUNCATE removes, part by part: what was given is taken, row by row, and not added up first."""
    file = writer.file(shape.schema.arrow_changes())
    cause = cause.drop_columns([ABSENT])
    try:
        for rows in there.parts(shape, before):
            file.write(removals(rows, cause))
        return file.finish(cause["_lsn"][0].as_py(), version=shape.version)
    except BaseException:
        file.abandon()
        raise


def _chunks(reader: Reader, relation: Relation, until: int) -> Iterator[tuple[list[Segment], bool]]:
    """What waits, in order, a bounded number of rows at a time; True if its first transaction may have begun before.

    A commit of capture is taken whole where it fits. One that does not is taken file by file; a transaction may then
    begin in one chunk and go on in the next, so what is before the latter includes the position it begins at.
    """
    for group in relations.raw_groups(reader.catalog, relation.id, until):
        for number, files in enumerate(segment.bounded(group, lambda one: one.rows, _CHUNK)):
            yield files, number > 0


def _shapes(reader: Reader, relation: Relation) -> list[Relation]:
    """The relation in every shape it has had."""
    if relation.version == 1:
        return [relation]
    return [
        replace(relation, schema=one.schema, version=one.version, shaped=one.from_position)
        for one in relations.versions(reader.catalog, relation.id)
    ]


def _by_shape(
    reader: Reader, files: Sequence[Segment], shapes: Sequence[Relation]
) -> Iterator[tuple[Relation, pa.Table]]:
    """Captured rows by the shape that the table has at their positions.

    A transaction that changes the table has rows in both shapes: all of them are settled in the newer one.
    """
    schemas = {one.version: one.schema for one in shapes}
    parts = [(one.version, segment.read(reader.home, [one], schemas[one.version].arrow_raw())) for one in files]
    for shape, following in zip(shapes, [*shapes[1:], None], strict=True):
        own = [
            translation(schemas[version], shape.schema).raw(rows) if version != shape.version else rows
            for version, rows in ((version, _within(rows, shape, following)) for version, rows in parts)
            if rows.num_rows
        ]
        if own:
            yield shape, pa.concat_tables(rows.cast(shape.schema.arrow_raw()) for rows in own)


def _within(rows: pa.Table, shape: Relation, following: Relation | None) -> pa.Table:
    """Those of the rows that are at positions of the shape."""
    if shape.version > 1:
        rows = rows.filter(pc.greater_equal(rows["_lsn"], shape.shaped))
    return rows if following is None else rows.filter(pc.less(rows["_lsn"], following.shaped))
