"""Reading a relation at a position: state(c) = base(c0) + changes(c0, c], or base(c0) − changes(c, c0] for c < c0.

`state` is that sum as weighted rows, not netted: joins and sums read it without merging anything. `rows` is the
relation as people know it: plain rows, each as often as it occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, partial, reduce
from itertools import groupby, pairwise
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.catalog import relations
from penstock.catalog.listing import Listing
from penstock.catalog.relations import Base, Listed, Relation
from penstock.catalog.store import Catalog, Question
from penstock.errors import NotRetained
from penstock.fitted import fitted
from penstock.lake.arrow_exchange import to_arrow, to_spark
from penstock.lake.base_files import BaseFiles, among_any, base_files
from penstock.lake.inserts import leading_inserts
from penstock.lake.latest_rows import LatestRows, Reading, Stretch
from penstock.lake.net_changes import NetChanges, PlainChanges
from penstock.lake.session import quoted, small_queries
from penstock.lake.zset_frames import (
    ddl,
    expand,
    merge_by_key,
    merge_by_row,
    net,
    same,
    struct,
    translated,
    weighted,
    without,
)
from penstock.lsn import Lsn
from penstock.relation import key_lookup, segment
from penstock.relation.home import Home
from penstock.relation.schema import Schema
from penstock.relation.segment import Segment
from penstock.relation.translation import Translation, translation
from penstock.zset import WEIGHT, among, consolidate

# Changes up to this many rows travel through Arrow into the plan itself; more are read from their files by Spark.
SMALL = 50_000
# Of a refresh, so many changed rows, and rows that they reach, are gathered in memory before Spark is asked.
GATHERED = 100_000

# Beyond so many rows to look through, Spark's parallel scan is worth its fixed cost; see docs/benchmarks.md.
SCANNED = 10_000_000
# Changes up to so many rows, in segments of so many bytes, are added up in memory: a second, some hundred megabytes.
IN_MEMORY_ROWS, IN_MEMORY_BYTES = 500_000, 64 << 20

NOTHING_MORE: Mapping[str, str] = {}
NOTHING_ELSE: Mapping[Any, Question[Any]] = {}

Pending = Mapping[int, Sequence[Segment]]
Asked = dict[tuple[object, ...], Any]
"""What the catalog answered in a piece of work, by question."""
T = TypeVar("T")


class Reader:
    """Reads relations of one home; `spark` is asked for only when a Spark answer is."""

    def __init__(
        self, home: Home, catalog: Catalog, spark: Callable[[], SparkSession], pending: Pending | None = None
    ) -> None:
        self.home = home
        self.catalog = catalog
        self.spark = spark
        self._pending = pending or {}
        self._scans: dict[int, tuple[int, DataFrame]] = {}
        self._net = NetChanges()
        self._plain = PlainChanges(SMALL)
        self._latest = LatestRows(2 * SMALL)
        self._listing = Listing()
        self._newest: dict[int, int] = {}  # the position of the newest base of each relation, last time
        self._shapes: dict[tuple[int, int], Schema] = {}
        self._light: list[Reader] = []
        self._asked: Asked | None = None

    def beside(self, pending: Pending, asked: Asked | None = None) -> Reader:
        """The same home with segments that are written but not committed, for one piece of work.

        What it has asked the catalog for, or was asked before, stays as it was: files that are replaced meanwhile stay
        for a while.
        """
        other = copy(self)
        other._pending = pending
        other._asked = {} if asked is None else asked
        return other

    def light(self) -> Reader:
        """The same home through a session for small queries, which are planned once and run in few tasks."""
        if not self._light:
            self._light.append(Reader(self.home, self.catalog, cache(lambda: small_queries(self.spark()))))
        other = self._light[0].beside(self._pending)
        other._asked = self._asked
        return other

    def once(self, ask: Callable[..., T], *what: object) -> T:
        """What the catalog says, asked for once in a piece of work."""
        if self._asked is None:
            return ask(self.catalog, *what)
        key = (ask, *what)
        if key not in self._asked:
            self._asked[key] = ask(self.catalog, *what)
        return cast(T, self._asked[key])

    def ask_ahead(
        self, wanted: Mapping[int, int], also: Mapping[Any, Question[Any]] = NOTHING_ELSE,
        first: Question[Any] | None = None,
    ) -> Asked:  # fmt: skip
        """Ask the catalog at once for what a piece of work (`beside`) needs of several relations: their bases, and
        their segments since these or the given position, whichever is earlier; `also` for what `once` would ask, and
        `first` for something else. Gives all that was asked."""
        assert self._asked is not None
        questions = [*([] if first is None else [first]), *also.values()]
        answers = self._ask(
            wanted, lambda newest: {id_: min(position, newest[id_]) for id_, position in wanted.items()}, questions
        )
        self._asked |= dict(zip(also, answers[len(answers) - len(also) :], strict=True))
        return self._asked

    def ask_before_lookups(self, wanted: Sequence[Relation], *first: Question[Any]) -> list[Any]:
        """The same where only `lookup` is asked for: what it remembers need not be listed again. Gives the answers to
        what else is asked, before it."""
        return self._ask(
            [one.id for one in wanted],
            lambda newest: {one.id: self._kept_until(one, newest[one.id]) for one in wanted},
            first,
        )

    def _ask(
        self, identifiers: Collection[int], after: Callable[[Mapping[int, int]], dict[int, int]],
        first: Sequence[Question[Any]],
    ) -> list[Any]:  # fmt: skip
        """The bases of relations, and their segments `after` positions that depend on those of the newest bases.

        These are mostly as they were last time, and then one round trip does for all.
        """
        assert self._asked is not None
        questions = [*first, relations.bases_of(identifiers)]
        if self._newest.keys() >= set(identifiers):
            supposed = after(self._newest)
            *answers, bases, answer = self.catalog.ask(*questions, self._listing.of(supposed))
        else:
            supposed, answer = {}, None
            *answers, bases = self.catalog.ask(*questions)
        newest = {id_: found[0].position if found else -1 for id_, found in bases.items()}
        self._newest |= newest
        needed = after(newest)
        if answer is not None and all(supposed[id_] <= position for id_, position in needed.items()):
            listed = self._listing.whole(self.catalog, supposed, answer)
        else:
            listed = self._listing.segments(self.catalog, needed)
        self._asked |= {(relations.bases, id_): found for id_, found in bases.items()}
        self._asked |= {(Listed, id_): found for id_, found in listed.items()}
        return answers

    def base(self, relation: Relation) -> Base | None:
        """The newest base that can be read in the relation's version; None is an empty base before everything."""
        found = self.once(relations.bases, relation.id)
        base = next((base for base in found if base.version <= relation.version), None)
        if base is not (found[0] if found else None) and relation.retained > (base.position if base else -1):
            raise NotRetained(
                f"{relation.name} cannot be read in the shape it had before {Lsn(relation.retained)} any more: "
                "the changes since are not kept",
                hint="Read it at a later frontier. A pin, or a longer changelog_retention, keeps what you need.",
            )
        return base

    def from_version(self, relation: Relation, version: int) -> Translation:
        """How rows of an earlier shape are read in the relation's."""
        if version == relation.version:
            return translation(relation.schema, relation.schema)
        key = (relation.id, version)
        if key not in self._shapes:
            known = relations.versions(self.catalog, relation.id)
            self._shapes |= {(relation.id, one.version): one.schema for one in known}
        return translation(self._shapes[key], relation.schema)

    def read(
        self,
        relation: Relation,
        found: Sequence[Segment],
        columns: Sequence[str],
        *,
        after: int | None = None,
        until: int | None = None,
    ) -> pa.Table:
        """The rows of segments with their weight, in the relation's shape, whatever shape each was written in."""
        schema = segment.rows_with_weight(relation.schema, columns)
        parts = [schema.empty_table()]
        for version, alike in groupby(found, key=lambda one: one.version):
            if version == relation.version:
                parts.append(segment.read(self.home, list(alike), schema, after=after, until=until))
                continue
            way = self.from_version(relation, version)
            older = segment.rows_with_weight(way.old, way.sources(columns))
            rows = segment.read(self.home, list(alike), older, after=after, until=until)
            parts.append(fitted(way.rows(rows, columns, [WEIGHT]), schema))
        return pa.concat_tables(parts)

    def segments(self, relation: Relation, after: int, until: int) -> list[Segment]:
        return self.committed(relation, after, until) + self._waiting(relation, after, until)

    def committed(self, relation: Relation, after: int, until: int) -> list[Segment]:
        """Without those that are only written."""
        listed = self._asked.get((Listed, relation.id)) if self._asked else None
        if listed is not None and listed.after <= after:
            return cast(Listed, listed).within(after, until)
        return self.once(relations.segments, relation.id, after, until)

    def _waiting(self, relation: Relation, after: int, until: int) -> list[Segment]:
        return [one for one in self._pending.get(relation.id, ()) if one.high > after and one.low <= until]

    def changed_rows(self, relation: Relation, after: int, until: int) -> int:
        """At least as many rows as changed in (after, until]: known without reading any."""
        return sum(found.rows for found in self.segments(relation, after, until))

    def changes_arrow(
        self, relation: Relation, after: int, until: int, columns: Sequence[str], *, keep: bool = True
    ) -> pa.Table:
        """Weighted rows of (after, until], consolidated over `columns`: what the reader cannot see cancels.

        `keep`: for the next reader, which then adds only what is new; not for ranges that may be large.
        """
        if not keep or relation.id in self._pending:  # what is not committed may never be
            found = self.segments(relation, after, until)
            return consolidate(self.read(relation, found, columns, after=after, until=until), columns)
        return self._net_changes(relation, after, until, columns)

    def _net_changes(self, relation: Relation, after: int, until: int, columns: Sequence[str]) -> pa.Table:
        """Those that are committed."""
        read = partial(self._read, relation, columns)
        return self._net.get((relation.id, relation.version), after, until, columns, read)

    def kept_changes(self, relation: Relation, after: int, until: int) -> pa.Table | None:
        """Whole weighted rows of (after, until], not added up, to look for a few of them; None if they are not few, or
        not committed."""
        if relation.id in self._pending:
            return None
        return self._plain_changes(relation, after, until)

    def _plain_changes(self, relation: Relation, after: int, until: int) -> pa.Table | None:
        count, read = partial(self._count, relation), partial(self._read, relation, list(relation.schema.names))
        return self._plain.get((relation.id, relation.version), after, until, count, read)

    def _count(self, relation: Relation, after: int, until: int) -> int:
        return sum(one.rows for one in self.committed(relation, after, until))

    def _stretch(self, relation: Relation, after: int, until: int) -> Stretch:
        found = self.committed(relation, after, until)
        ordered = all(one.high < two.low for one, two in pairwise(found))
        return Stretch(sum(one.rows for one in found), _last(found, after, until), ordered)

    def _read(self, relation: Relation, columns: Sequence[str], after: int, until: int) -> pa.Table:
        return self.read(relation, self.committed(relation, after, until), columns, after=after, until=until)

    def changes(self, relation: Relation, after: int, until: int, columns: Sequence[str]) -> DataFrame:
        """Weighted rows of (after, until]; consolidated where they are few."""
        found = self.segments(relation, after, until)
        if sum(one.rows for one in found) <= SMALL:
            return self.frame(self.changes_arrow(relation, after, until, columns), relation, columns)
        parts = [
            self._scan(relation, version, list(alike), after, until, columns)
            for version, alike in groupby(found, key=lambda one: one.version)
        ]
        return reduce(DataFrame.unionByName, parts)

    def _scan(
        self, relation: Relation, version: int, found: list[Segment], after: int, until: int, columns: Sequence[str]
    ) -> DataFrame:
        """Segments of one version as weighted rows in the relation's."""
        way = self.from_version(relation, version)
        # Of a stream table only segments that were put together have positions of their own.
        lsn = ", _lsn bigint" if relation.kind == "table" or any(one.low != one.high for one in found) else ""
        paths = [str(self.home.path(one.path)) for one in found]
        frame = self.spark().read.schema(ddl(way.old, way.sources(columns)) + lsn).parquet(*paths)
        if lsn:
            inside = (F.col("_lsn") > int(after)) & (F.col("_lsn") <= int(until))  # an Lsn goes to Spark as its text
            frame = frame.where(inside if relation.kind == "table" else inside | F.col("_lsn").isNull())
        return frame.select(*(map(quoted, columns) if way.old is way.new else translated(way, columns)), WEIGHT)

    def frame(
        self, rows: pa.Table, relation: Relation, columns: Sequence[str], more: Mapping[str, str] = NOTHING_MORE
    ) -> DataFrame:
        """Arrow rows with a weight as a Spark relation whose size the planner knows; `more` columns and their types."""
        names = [*columns, WEIGHT, *more]
        whole = rows.select(names).combine_chunks()  # Spark 4.2 stops reading at a chunk without rows
        if not whole.num_rows:  # it also cannot take times or lists without any chunk
            whole = pa.table([pa.array([], field.type) for field in whole.schema], schema=whole.schema)
        types = [ddl(relation.schema, columns), *(f"{quoted(name)} {spark}" for name, spark in more.items())]
        return to_spark(self.spark(), whole, struct(", ".join(types)))

    def state(self, relation: Relation, position: int, columns: Sequence[str]) -> DataFrame:
        """Weighted rows whose sum is the relation at `position`."""
        base = self.base(relation)
        if base is None:
            return self.changes(relation, -1, position, columns)
        rows = self._base_state(relation, base, columns)
        low, high = sorted((base.position, position))
        if not self.segments(relation, low, high):
            return rows
        changed = self.changes(relation, low, high, columns)
        if position < base.position:
            changed = changed.withColumn(WEIGHT, -F.col(WEIGHT))
        return rows.unionByName(changed)

    def _base_state(self, relation: Relation, base: Base, columns: Sequence[str]) -> DataFrame:
        """The base as weighted rows: all rows of its files, less those that deletion vectors hide.

        Planning a scan of a Delta table runs several Spark jobs; a version's files never change, and a scan of them as
        plain Parquet runs none. Sums do not mind the hidden rows being there once with +1 and once with −1.
        """
        files = self.base_files(relation, base)
        if files.hidden_rows > SMALL or not files.paths:
            return weighted(self.base_rows(relation, base), columns)
        way = self.from_version(relation, base.version)
        there = self._parquet(relation, base, files)
        rows = weighted(there if way.old is way.new else there.select(*translated(way, columns)), columns)
        if not files.hidden_rows:
            return rows
        minus = pa.table({WEIGHT: pa.repeat(pa.scalar(-1, pa.int64()), files.hidden_rows)})
        for name in columns:  # a query may need none of them, only how many rows there are
            source = way.origins[name].source
            hidden = files.hidden(way.old.arrow([source.name])) if source else minus
            minus = minus.append_column(name, way.origins[name].values(hidden))
        return rows.unionByName(self.frame(minus, relation, columns))

    def base_files(self, relation: Relation, base: Base) -> BaseFiles:
        return base_files(self.home.base(relation.folder), base.delta_version, relation.id)

    def _parquet(self, relation: Relation, base: Base, files: BaseFiles) -> DataFrame:
        """The files of a Delta version as one scan, listed once, in the shape of that version."""
        known = self._scans.get(relation.id)
        if known is None or known[0] != base.delta_version:
            columns = [(column, files.physical(column.name)) for column in self.base_schema(relation, base).columns]
            names = ", ".join(f"{quoted(stored)} {column.spark}" for column, stored in columns)
            frame = self.spark().read.schema(names).parquet(*files.paths)
            renamed = {stored: column.name for column, stored in columns if stored != column.name}
            known = base.delta_version, frame.withColumnsRenamed(renamed) if renamed else frame
            self._scans[relation.id] = known
        return known[1]

    def base_schema(self, relation: Relation, base: Base) -> Schema:
        return self.from_version(relation, base.version).old

    def rows(self, relation: Relation, position: int, columns: Sequence[str] | None = None) -> DataFrame:
        """Plain rows of the relation at `position`, its own columns only."""
        wanted = list(columns or relation.schema.names)
        base = self.base(relation)
        begun = self._plain_rows(relation, base) if base else self._copied_rows(relation, position)
        if begun is None:
            return expand(net(self.changes(relation, -1, position, wanted), wanted), wanted)
        plain, reached = begun
        low, high = sorted((reached, position))
        if not self.segments(relation, low, high):
            return plain.select(*map(quoted, wanted))
        names = list(relation.schema.names)
        if relation.schema.key and self.fits(self.segments(relation, low, high)):
            known = self.changes_arrow(relation, low, high, names, keep=False)
            return self._merge_in_memory(plain, known, relation, position < reached).select(*map(quoted, wanted))
        changed = net(self.changes(relation, low, high, names), names)
        if position < reached:
            changed = changed.withColumn(WEIGHT, -F.col(WEIGHT))
        merged = merge_by_key if relation.schema.key else merge_by_row
        return merged(plain, changed, relation).select(*map(quoted, wanted))

    def fits(self, found: Sequence[Segment]) -> bool:
        """Whether changes are better added up in memory, by Arrow, than by a shuffle of Spark's."""
        return sum(one.rows for one in found) <= IN_MEMORY_ROWS and sum(one.bytes for one in found) <= IN_MEMORY_BYTES

    def _merge_in_memory(self, plain: DataFrame, changed: pa.Table, relation: Relation, back: bool) -> DataFrame:
        """Net changes by key; `back`: taken back from the base instead of added to it."""
        come, go = pc.greater(changed[WEIGHT], 0), pc.less(changed[WEIGHT], 0)
        new, gone = (changed.filter(go), changed.filter(come)) if back else (changed.filter(come), changed.filter(go))
        names, key = list(relation.schema.names), list(relation.schema.key)
        kept = plain.select(*map(quoted, names))
        if gone.num_rows:
            kept = without(kept, self.frame(gone, relation, key), relation)
        return kept.unionByName(self.frame(new, relation, names).drop(WEIGHT)) if new.num_rows else kept

    def _plain_rows(self, relation: Relation, base: Base) -> tuple[DataFrame, int]:
        """The rows of the base: as plain Parquet where no row of the files is deleted, which saves Delta's planning."""
        files = self.base_files(relation, base)
        if files.hidden_rows or not files.paths:
            return self.base_rows(relation, base), base.position
        rows = self._parquet(relation, base, files)
        if base.version != relation.version:
            rows = rows.select(*translated(self.from_version(relation, base.version), relation.schema.names))
        return rows, base.position

    def _copied_rows(self, relation: Relation, position: int) -> tuple[DataFrame, int] | None:
        """Without a base: rows that only came in, as a copy has them, and the position up to which there are no others.

        None where there are none, or not of this shape.
        """
        found = self.segments(relation, -1, position)
        first = leading_inserts(self.home, found, position)
        if not first or any(one.version != relation.version for one in first):
            return None
        reached = max(one.high for one in first)
        if any(one.low <= reached for one in found[len(first) :]):
            return None
        rows = self._scan(relation, relation.version, first, -1, reached, list(relation.schema.names))
        return rows.drop(WEIGHT), reached

    def base_rows(self, relation: Relation, base: Base) -> DataFrame:
        """The rows of the Delta table in the relation's shape."""
        path = str(self.home.base(relation.folder))
        rows = self.spark().read.format("delta").option("versionAsOf", base.delta_version).load(path)
        if base.version == relation.version:
            return rows
        return rows.select(*translated(self.from_version(relation, base.version), relation.schema.names))

    def rows_arrow(self, relation: Relation, position: int) -> pa.Table:
        """All rows at `position` in memory, without Spark: what a TRUNCATE removes."""
        names = list(relation.schema.names)
        base = self.base(relation)
        since = base.position if base else -1
        parts = [self.changes_arrow(relation, since, position, names)]
        if base:
            way = self.from_version(relation, base.version)
            there = way.rows(self.base_files(relation, base).rows(way.old.arrow()), names)
            parts.append(there.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), there.num_rows)))
        total = consolidate(pa.concat_tables(parts), names)
        copies = np.maximum(total[WEIGHT].to_numpy(), 0)
        return total.take(pa.array(np.repeat(np.arange(total.num_rows), copies))).select(names)

    def parts(self, relation: Relation, position: int) -> Iterator[pa.Table]:
        """Weighted rows whose sum is the relation at `position`, a file or a part of one at a time, without Spark."""
        names = list(relation.schema.names)
        base = self.base(relation)
        since = base.position if base else -1
        if base:
            way = self.from_version(relation, base.version)
            for part in self.base_files(relation, base).parts(way.old.arrow()):
                rows = way.rows(part(), names)
                yield rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))
        for one in self.segments(relation, since, position):
            yield self.read(relation, [one], names, after=since, until=position)

    def lookup(self, relation: Relation, keys: pa.Table, position: int) -> pa.Table:
        """The rows of `keys` at `position`: newest change first, then the base; without Spark unless that is large."""
        names, key = list(relation.schema.names), list(relation.schema.key)
        base = self.base(relation)
        since = base.position if base else -1
        wanted = fitted(keys, relation.schema.arrow(key))
        found, left = self._latest_rows(relation, base, wanted, position) or self._netted(
            relation, wanted, since, position
        )
        if base is None or not left.num_rows:
            return found
        way = self.from_version(relation, base.version)
        there, wanted_then = self.base_files(relation, base), way.keys(left)
        if there.may_match([wanted_then]) > SCANNED:
            return pa.concat_tables([found, self._lookup_on_spark(relation, base, left)])
        return pa.concat_tables([found, way.rows(there.lookup(wanted_then, way.old.arrow()), names)])

    def _kept_until(self, relation: Relation, after: int) -> int:
        """Up to where the changes that lookups go through are known."""
        end = self._latest.end(_copy_of(relation))
        return self._plain.end((relation.id, relation.version), after) if end is None else end

    def _latest_rows(
        self, relation: Relation, base: Base | None, keys: pa.Table, until: int
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows of `keys` that are known without a look at files, and which of them are as the base has them."""
        since = base.position if base else -1
        if until < since or self._waiting(relation, since, until):
            return None
        names = list(relation.schema.names)
        few = base.rows if base and base.rows <= SMALL else 0
        reading = Reading(
            few, partial(self._small_base, relation, base), partial(self._stretch, relation),
            partial(self._read, relation, names),
        )  # fmt: skip
        try:
            return self._latest.find(_copy_of(relation), since, until, keys, reading)
        except NotRetained:  # what came after the last look is in the base, and the changes are gone: from there, then
            self._latest.forget(_copy_of(relation))
            return self._latest.find(_copy_of(relation), since, until, keys, reading)

    def _small_base(self, relation: Relation, base: Base | None) -> pa.Table:
        """The rows of a base of few rows, with their weight; none of one with many."""
        names = list(relation.schema.names)
        schema = segment.rows_with_weight(relation.schema, names)
        if base is None or base.rows > SMALL:
            return schema.empty_table()
        way = self.from_version(relation, base.version)
        rows = way.rows(self.base_files(relation, base).rows(way.old.arrow()), names)
        return fitted(rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)), schema)

    def _netted(self, relation: Relation, keys: pa.Table, after: int, until: int) -> tuple[pa.Table, pa.Table]:
        """The same by adding changes up: a key with changes left is here, or gone; any other is as it was."""
        names = list(relation.schema.names)
        latest = consolidate(self._changed_keys(relation, keys, after, until), names)
        found = latest.filter(pc.greater(latest[WEIGHT], 0)).select(names)
        return found, keys.filter(pc.invert(among(keys, latest.select(keys.column_names))))

    def _changed_keys(self, relation: Relation, keys: pa.Table, after: int, until: int) -> pa.Table:
        """The weighted rows of `keys` in (after, until]."""
        names = list(relation.schema.names)
        schema = segment.rows_with_weight(relation.schema, names)
        parts = [schema.empty_table()]
        waiting = self._waiting(relation, after, until)
        # What is kept says that it is all up to its end: it ends before what is not committed yet.
        end = max(after, min([until, *(one.low - 1 for one in waiting)]))
        known = min(self._plain.end((relation.id, relation.version), after), end)
        end = _last(self.committed(relation, known, end), known, end)  # nor what may still be put behind that
        kept = self._plain_changes(relation, after, end)
        if kept is not None:
            parts.append(fitted(kept.filter(pa.array(among_any(kept, [keys]))), schema))
            after = end
        rest = self.segments(relation, after, until) if after < until else []
        for version, alike in groupby(rest, key=lambda one: one.version):
            way = self.from_version(relation, version)
            then = segment.rows_with_weight(way.old, way.old.names)
            rows = key_lookup.find(self.home, list(alike), then, way.keys(keys), after=after, until=until)
            parts.append(fitted(way.rows(rows, names, [WEIGHT]), schema))
        return pa.concat_tables(parts)

    def _lookup_on_spark(self, relation: Relation, base: Base, keys: pa.Table) -> pa.Table:
        """The rows of `keys` in the base, where a parallel scan is worth its fixed cost: files are skipped by the range
        of the first key column, and the keys go to every task."""
        rows = self.base_rows(relation, base).select(*map(quoted, relation.schema.names))
        first = relation.schema.key[0]
        bounds = pc.min_max(keys[first]).as_py()
        if (
            pa.types.is_integer(keys.schema.field(first).type)
            and bounds["min"] is not None
            and not keys[first].null_count
        ):
            rows = rows.where(F.col(quoted(first)).between(bounds["min"], bounds["max"]))
        wanted = self.spark().createDataFrame(keys.combine_chunks())
        found = rows.join(F.broadcast(wanted), same(rows, wanted, relation.schema.key), "left_semi")
        return to_arrow(found).cast(relation.schema.arrow())


def _last(found: Sequence[Segment], after: int, until: int) -> int:
    """The last position up to `until` that has rows in segments after `after`."""
    return max((min(one.high, until) for one in found), default=after)


def _copy_of(relation: Relation) -> tuple[int, ...]:
    """A relation in its shape, as it was copied last."""
    return relation.id, relation.version, relation.since
