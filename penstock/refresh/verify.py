"""Proof that the lake equals the source: both read at one exact LSN and compared.

A table, and a stream table as PostgreSQL itself computes it, are compared by sums of hashes first, range by range and
on both sides at once (`source_side`, `lake_side`); only the rows of buckets whose sums differ are fetched, and compared
value by value. A stream table over several sources is computed anew by Spark from the tables at the same frontier.

A table that was truncated or rewritten while it was read is looked at again, under a newer snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from psycopg import sql as pgsql

from penstock.capture.selection import condition, selections
from penstock.capture.source_at import SourceAt
from penstock.catalog import pins, relations, sources, stream_tables, verifications
from penstock.catalog.relations import Relation
from penstock.catalog.stream_tables import StreamTable
from penstock.catalog.verifications import Verified
from penstock.cut import Frontier
from penstock.errors import Busy, PenstockError, SourceError
from penstock.refresh import recompute
from penstock.refresh.bucket_sums import BucketSums, bucket_count
from penstock.refresh.lake_side import LakeSide
from penstock.refresh.positions import sources_of
from penstock.refresh.repair import corrected, told
from penstock.refresh.row_hash import OLDEST
from penstock.refresh.source_query import source_query
from penstock.refresh.source_side import Rewritten, SourceSide
from penstock.refresh.verification import Difference, Row, Verification, difference
from penstock.relation.schema import Column
from penstock.views.approximate import EXACT, Rooms, approximate
from penstock.views.determined import undetermined
from penstock.views.oracle import differing_rows

if TYPE_CHECKING:
    from penstock.refresh.engine import Engine

__all__ = ["Difference", "Progress", "Verification", "verify"]

Progress = Callable[[str, int], None]  # a relation, and how many rows of it were read in the source since the last call
_AT_ONCE = 200_000  # rows fetched from both sides to be compared by value
_ENOUGH = 10_000  # differing rows, after which the search ends
_SNAPSHOTS = 4
_WAIT = 0.2
_PATIENCE = 600.0  # a capture beside us may be in the middle of a long step
_PARTITIONED = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p'
"""


def verify(
    engine: Engine, name: str | None = None, progress: Progress | None = None, *, repair: bool = False
) -> Verification:
    """Compare a source with everything over it, all sources, or one relation; what differs may be put right."""
    started = time.monotonic()
    try:
        found = _compared(engine, _wanted(engine, name), progress or (lambda *_: None), repair=repair)
        if repair and found.differences:
            found = _repaired(engine, found, progress or (lambda *_: None))
    except PenstockError as error:
        verifications.record(engine.catalog, Verified(name, time.monotonic() - started, error=error.message))
        raise
    found = replace(found, seconds=time.monotonic() - started)
    counts = {one.relation: one.count for one in found.differences}
    line = Verified(name, found.seconds, found.frontier, found.rows, counts, found.repaired)
    verifications.record(engine.catalog, line)
    return found


def _repaired(engine: Engine, found: Verification, progress: Progress) -> Verification:
    """Tables whose rows were not corrected on the way are copied again, views computed anew; then all are compared."""
    engine.read_anew()
    repaired = dict(found.repaired)
    known = {relation.name: relation for relation in relations.every(engine.catalog)}
    differing = [known[one.relation] for one in found.differences]
    for relation in differing:
        if relation.source is not None and relation.name not in repaired:
            engine.captures.resync(relation.source, relation.table)
            repaired[relation.name] = "copied again"
    engine.catch_up()
    views = [relation.name for relation in differing if relation.source is None]
    for name, done in engine.refresh(views, anew=views).items():
        if name in views:
            repaired[name] = f"computed anew: {done.inserted} rows put in, {done.deleted} taken out"
    again = _compared(engine, {relation.name for relation in differing}, progress)
    still = {one.relation for one in again.differences}
    return replace(
        found,
        differences=tuple(one for one in found.differences if one.relation not in still) + again.differences,
        repaired={name: how for name, how in repaired.items() if name not in still},
    )


def compare_tables(engine: Engine) -> Verification:
    """All tables, captured by someone else: nothing is captured or refreshed here, and no Spark is used."""
    every = [one for one in relations.every(engine.catalog) if one.source is not None]
    tables = {one.name for one in every if _is_comparable(engine, one)}
    return _compared(engine, tables, lambda *_: None, capture=False)


def compare_view(engine: Engine, table: StreamTable) -> tuple[int, Difference | None] | None:
    """A stream table at the frontier where it is, with what its query gives there; None if that is not one answer."""
    known = relations.every(engine.catalog)
    if undetermined(engine.plans.of(table, known).view):
        return None
    relation, position, at = engine.position(table.name)
    views = {one.name: one for one in stream_tables.every(engine.catalog)}
    return recompute.compare(engine, table, known, relation, position, at, _approximate(engine, table, known, views))


def _compared(
    engine: Engine, wanted: set[str], progress: Progress, *, repair: bool = False, capture: bool = True
) -> Verification:
    outcome = _Outcome()
    for _ in range(_SNAPSHOTS):
        wanted = _under_snapshots(engine, wanted, outcome, progress, repair=repair, capture=capture)
        if not wanted:
            found = Verification(Frontier(outcome.cuts), outcome.rows, tuple(outcome.differences), 0, outcome.repaired)
            return replace(found, skipped=outcome.skipped)
    raise SourceError(
        f"{', '.join(sorted(wanted))} cannot be compared: each time it was truncated, rewritten or altered meanwhile",
        hint="Verify again when that has ended. What could be compared was equal."
        if not outcome.differences
        else f"Verify again when that has ended. {len(outcome.differences)} other relations differ.",
    )


@dataclass
class _Outcome:
    cuts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    repaired: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def record(self, relation: Relation, rows: int, found: Difference | None) -> None:
        self.rows[relation.name] = rows
        if found is not None:
            self.differences.append(found)


def _wanted(engine: Engine, name: str | None) -> set[str]:
    """The relations to compare, by name: those of a source with the views over it, all, or one."""
    every = [relation for relation in relations.every(engine.catalog) if _is_comparable(engine, relation)]
    if name is None:
        return {relation.name for relation in every}
    if name in {source.name for source in sources.every(engine.catalog)}:
        return {relation.name for relation in every if name in _sources(engine, relation)}
    return {relations.choose(every, name).name}


def _is_comparable(engine: Engine, relation: Relation) -> bool:
    """Not a table that ended or is only streamed, a view over one, or a suspended view: they differ for good."""
    if relation.source is not None:
        options = sources.get(engine.catalog, relation.source).options
        return relation.ended is None and not sources.is_partial(options, relation.table)
    table = stream_tables.get(engine.catalog, relation.name)
    read = relations.by_id(engine.catalog, table.inputs)
    return table.status != "SUSPENDED" and all(_is_comparable(engine, one) for one in read)


def _under_snapshots(
    engine: Engine, wanted: set[str], outcome: _Outcome, progress: Progress, *, repair: bool, capture: bool
) -> set[str]:
    """Compare what is wanted at one frontier; what could not be read under its snapshots is left."""
    reads = {one.name: _sources(engine, one) for one in relations.every(engine.catalog) if one.name in wanted}
    needed = frozenset[str]().union(*reads.values())
    if capture:
        with suppress(Busy):  # whoever captures takes up tables that changed their shape, as this does
            engine.catch_up()
    with ExitStack() as stack:
        there = {
            source.name: stack.enter_context(
                SourceAt(source.dsn, timeout=engine.settings.snapshot_timeout, workers=engine.settings.verify_workers)
            )
            for source in sources.every(engine.catalog)
            if source.name in needed
        }
        frontier = Frontier({name: one.lsn for name, one in there.items()})
        stack.enter_context(pins.held(engine.catalog, frontier))
        _reach(engine, frontier, capture=capture)
        outcome.cuts.update(frontier)
        comparing = _Comparing(engine, there, frontier, progress)
        left = set()
        tables_first = sorted(relations.every(engine.catalog), key=lambda relation: relation.source is None)
        for latest in (one for one in tables_first if one.name in wanted):
            relation = relations.at(engine.catalog, latest, frontier[latest.source]) if latest.source else latest
            if (reason := comparing.not_comparable(relation)) is not None:
                outcome.skipped[relation.name] = reason
                continue
            try:
                rows, found = comparing.compare(relation)
            except Rewritten:
                left.add(relation.name)
                continue
            outcome.record(relation, rows, found)
            if repair and found is not None and _corrected(engine, relation, found, frontier):
                outcome.repaired[relation.name] = told(found)
    return left


def _corrected(engine: Engine, relation: Relation, found: Difference, frontier: Frontier) -> bool:
    if relation.source is None or not found.complete:
        return False
    return corrected(engine, relation, found, frontier[relation.source])


def _reach(engine: Engine, frontier: Frontier, *, capture: bool) -> None:
    """Capture up to the frontier, or wait for whoever captures: it goes there by itself."""
    deadline = time.monotonic() + (engine.settings.snapshot_timeout if capture else _PATIENCE)
    while True:
        try:
            if capture:
                engine.catch_up(until=frontier)
                return
            busy = Busy("the capture does not get on", hint="Look at `penstock status`.")
        except Busy as error:
            busy = error
        now = {one.name: one.settled for one in sources.every(engine.catalog)}
        if all((now.get(name) or 0) >= cut for name, cut in frontier.items()):
            return
        if time.monotonic() > deadline:
            raise busy
        time.sleep(_WAIT)


def _sources(engine: Engine, relation: Relation) -> frozenset[str]:
    known = {one.id: one for one in relations.every(engine.catalog)}
    views = {table.relation_id: table for table in stream_tables.every(engine.catalog)}
    return sources_of(relation.id, known, views)


def _approximate(
    engine: Engine, table: StreamTable, known: Sequence[Relation], views: Mapping[str, StreamTable]
) -> Rooms:
    """The view's approximate columns, its own and those it has from views below it."""
    read = [views[one.name] for one in known if one.id in table.inputs and one.name in views]
    upstream = {below.name: _approximate(engine, below, known, views) for below in read}
    return approximate(engine.plans.of(table, known).view, upstream)


class _Comparing:
    """Everything compared under one set of snapshots."""

    def __init__(self, engine: Engine, there: Mapping[str, SourceAt], frontier: Frontier, progress: Progress) -> None:
        self._engine = engine
        self._there = there
        self._frontier = frontier
        self._progress = progress
        self._known = relations.every(engine.catalog)
        self._views = {table.name: table for table in stream_tables.every(engine.catalog)}
        where = {source.name: source for source in sources.every(engine.catalog) if source.name in there}
        self._selected = {name: selections(one.dsn, one.publication) for name, one in where.items()}
        self._partitioned = {name: frozenset(t for (t,) in at.rows(_PARTITIONED)) for name, at in there.items()}

    def not_comparable(self, relation: Relation) -> str | None:
        """Why rows of a view may differ from PostgreSQL's and both be right."""
        chosen = self._undetermined(self._views[relation.name]) if relation.source is None else ()
        if not chosen:
            return None
        named = ", ".join(chosen)
        return f"its query leaves a choice among rows that ORDER BY calls equal ({named}), so no one answer is right"

    def _undetermined(self, table: StreamTable) -> tuple[str, ...]:
        return undetermined(self._engine.plans.of(table, self._known).view)

    def compare(self, relation: Relation) -> tuple[int, Difference | None]:
        """How many rows it has here, and what differs."""
        if relation.source is not None:
            return self._table(relation)
        table = self._views[relation.name]
        reads = _sources(self._engine, relation)
        at = self._frontier.only(reads)
        self._refresh(table, at)
        position = self._engine.position(table.name, at)[1]
        loose = _approximate(self._engine, table, self._known, self._views)
        if len(reads) > 1 or table.dialect != "postgres" or self._over_a_choice(table):
            return recompute.compare(self._engine, table, self._known, relation, position, at, loose)
        return self._view(relation, table, position, next(iter(reads)), loose)

    def _over_a_choice(self, table: StreamTable) -> bool:
        """Whether a view below it took one of several right answers: then only that one can be computed from."""
        below = [self._views[one.name] for one in self._known if one.id in table.inputs and one.name in self._views]
        return any(self._undetermined(one) or self._over_a_choice(one) for one in below)

    def _refresh(self, table: StreamTable, at: Frontier) -> None:
        deadline = time.monotonic() + self._engine.settings.snapshot_timeout
        while True:
            try:
                self._engine.refresh([table.name], at)
                return
            except Busy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_WAIT)

    def _table(self, relation: Relation) -> tuple[int, Difference | None]:
        source = str(relation.source)
        there = self._there[source]
        if relation.since > there.lsn:  # copied after the snapshot: the next one sees what the copy saw
            raise Rewritten([relation.table])
        schema, _, name = relation.table.partition(".")
        partitioned = relation.table in self._partitioned[source]
        rows = SourceSide(
            there,
            pgsql.SQL("" if partitioned else "ONLY ") + pgsql.Identifier(schema, name),
            condition(self._selected[source].get(relation.table, "true")),
            relation.schema.columns,
            relation.schema.columns,
            (relation.table,),
            ranged=True,
        )
        return self._both(relation, there.lsn, rows, EXACT)

    def _view(
        self, relation: Relation, table: StreamTable, position: int, source: str, loose: Rooms
    ) -> tuple[int, Difference | None]:
        query = source_query(table, self._known, self._views, self._selected[source])
        rows = SourceSide(
            self._there[source],
            pgsql.SQL("({}) AS view").format(pgsql.SQL(query)),
            pgsql.Composed([pgsql.SQL("true")]),
            relation.schema.columns,
            tuple(column for column in relation.schema.columns if column.name not in loose),
            tuple(self._tables_below(table)),
            ranged=False,
        )
        return self._both(relation, position, rows, loose)

    def _tables_below(self, table: StreamTable) -> set[str]:
        read = [one for one in self._known if one.id in table.inputs]
        below = {name for one in read if one.name in self._views for name in self._tables_below(self._views[one.name])}
        return below | {one.table for one in read if one.source is not None}

    def _both(
        self, relation: Relation, position: int, source: SourceSide, loose: Rooms
    ) -> tuple[int, Difference | None]:
        threads = self._engine.settings.verify_workers
        lake = LakeSide(self._engine.reader, relation, position, source.hashed, threads)
        if source.there.version < OLDEST:  # no hash functions to compare by
            return self._by_value(relation, source, lake, None, loose)
        buckets = bucket_count(lake.about())
        with ThreadPoolExecutor(1) as beside:
            counting = beside.submit(source.sums, buckets, lambda rows: self._progress(relation.name, rows))
            here = lake.sums(buckets)
            there = counting.result()
        if not loose and not there.differing(here):
            return here.rows, None
        return self._by_value(relation, source, lake, (there, here), loose)

    def _by_value(
        self,
        relation: Relation,
        source: SourceSide,
        lake: LakeSide,
        sums: tuple[BucketSums, BucketSums] | None,
        loose: Rooms,
    ) -> tuple[int, Difference | None]:
        """Rows of the buckets that differ, or of all where some columns are only about equal."""
        columns, missing, extra, complete, rows = relation.schema.columns, list[Row](), list[Row](), True, 0
        if sums is None:
            groups, of = [[0]], 1
        else:
            there, here = sums
            of = len(here.counts)
            groups = list(there.groups(here, list(range(of)) if loose else there.differing(here), _AT_ONCE))
        for number, group in enumerate(groups):
            found = _differing(source.rows(group, of), lake.rows(group, of), columns, loose)
            missing += found[0]
            extra += found[1]
            rows += found[2]
            if max(len(missing), len(extra)) >= _ENOUGH and number + 1 < len(groups):
                complete = False
                break
        compared = rows if sums is None else sums[1].rows
        if not missing and not extra:
            return compared, None
        told = difference(relation.name, missing, extra, relation.schema.names, relation.schema.key, complete=complete)
        return compared, told


def _differing(
    there: Sequence[Row], here: Sequence[tuple[Row, int]], columns: Sequence[Column], loose: Rooms
) -> tuple[list[Row], list[Row], int]:
    """Rows on one side only. A row taken away here more often than it was given counts as one the lake lacks."""
    plain = [row for row, weight in here for _ in range(weight)]
    owed = [row for row, weight in here for _ in range(-weight)]
    missing, extra = differing_rows([*there, *owed], plain, columns, loose)
    return missing, extra, len(plain)
