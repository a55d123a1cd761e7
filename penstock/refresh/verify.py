"""Proof that the lake equals the source: both read at one exact LSN and compared row by row.

A table is read from PostgreSQL under an exported snapshot and from the lake at the snapshot's LSN. A stream table is
computed by PostgreSQL itself from the same snapshot, and compared with what incremental refreshes have made of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psycopg import sql as pgsql

from penstock.capture.selection import condition, selections
from penstock.capture.source_at import SourceAt
from penstock.catalog import relations, sources, stream_tables
from penstock.catalog.relations import Relation
from penstock.catalog.sources import Source
from penstock.catalog.stream_tables import StreamTable
from penstock.cut import Frontier
from penstock.errors import NotYet
from penstock.lsn import Lsn
from penstock.refresh.held import as_held
from penstock.refresh.positions import sources_of
from penstock.refresh.source_query import source_query
from penstock.views.approximate import approximate
from penstock.views.oracle import differing_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.refresh.engine import Engine

Row = tuple[Any, ...]
_SHOWN = 10
_PARTITIONED = """
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'p'
"""


@dataclass(frozen=True)
class Difference:
    """Rows of a relation that are only on one side; `missing` are in the source, `extra` in the lake."""

    relation: str
    missing: tuple[tuple[Any, ...], ...]
    extra: tuple[tuple[Any, ...], ...]
    count: int

    def __str__(self) -> str:
        shown = [f"  in the source only: {row}" for row in self.missing[:_SHOWN]]
        shown += [f"  in the lake only:   {row}" for row in self.extra[:_SHOWN]]
        return "\n".join([f"{self.relation}: {self.count} rows differ", *shown])


@dataclass(frozen=True)
class Verification:
    """The outcome at one frontier: `rows` compared for each relation, and what differs."""

    frontier: Frontier
    rows: dict[str, int]
    differences: tuple[Difference, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        cuts = ", ".join(f"{cut}" for cut in self.frontier.values())
        if self.ok:
            return f"All {len(self.rows)} relations equal the source at LSN {cuts}."
        wrong = "\n".join(map(str, self.differences))
        return f"{len(self.differences)} of {len(self.rows)} relations differ from the source at LSN {cuts}:\n{wrong}"


def verify(engine: Engine, name: str | None) -> Verification:
    """Compare a source with everything over it, all sources, or one relation."""
    started = time.monotonic()
    catalog = engine.catalog
    every = sources.every(catalog)
    names = [source.name for source in every]
    only = None if name is None or name in names else relations.find(catalog, name)
    wanted = names if name is None else [name] if only is None else sorted(_sources(engine, only))
    checked = _Checked()
    for source in (one for one in every if one.name in wanted):
        with SourceAt(source.dsn, timeout=engine.settings.snapshot_timeout) as there:
            _check_source(engine, source, there, only, checked)
    return Verification(Frontier(checked.cuts), checked.rows, tuple(checked.differences), time.monotonic() - started)


@dataclass
class _Checked:
    cuts: dict[str, Lsn] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def compare(
        self,
        relation: Relation,
        expected: Iterable[Row],
        actual: Sequence[Row],
        approximate: frozenset[str] = frozenset(),
    ) -> None:
        missing, extra = differing_rows(expected, actual, relation.schema.columns, approximate)
        self.rows[relation.name] = len(actual)
        if missing or extra:
            self.differences.append(
                Difference(relation.name, tuple(missing), tuple(extra), max(len(missing), len(extra)))
            )


def _check_source(engine: Engine, where: Source, there: SourceAt, only: Relation | None, checked: _Checked) -> None:
    source, selected = where.name, selections(where.dsn, where.publication)
    partitioned = frozenset(name for (name,) in there.rows(_PARTITIONED))
    engine.catch_up(until=Frontier({source: there.lsn}))
    checked.cuts[source] = there.lsn
    for relation in relations.of_source(engine.catalog, source):
        if relation.since <= there.lsn and (only is None or relation.id == only.id):
            actual = _rows(engine.reader.rows(relation, there.lsn))
            checked.compare(relation, there.rows(_table_query(relation, selected, partitioned)), actual)
    known = relations.every(engine.catalog)
    views = {table.name: table for table in stream_tables.every(engine.catalog)}
    for table in views.values():
        relation = next(one for one in known if one.id == table.relation_id)
        if only is not None and relation.id != only.id:
            continue
        reads = _sources(engine, relation)
        if source not in reads:
            continue
        if len(reads) > 1:
            raise NotYet(f"verify of {table.name}, which reads several sources", hint="Verify its sources one by one.")
        at = Frontier({source: there.lsn})
        engine.refresh([table.name], at)
        actual = _rows(engine.reader.rows(*engine.position(table.name, at)[:2]))
        expected = there.rows(_view_query(relation, source_query(table, known, views, selected)))
        checked.compare(relation, expected, actual, _approximate(engine, table, known, views))


def _approximate(
    engine: Engine, table: StreamTable, known: Sequence[Relation], views: Mapping[str, StreamTable]
) -> frozenset[str]:
    """The view's approximate columns, its own and those it has from views below it."""
    read = [views[one.name] for one in known if one.id in table.inputs and one.name in views]
    upstream = {below.name: _approximate(engine, below, known, views) for below in read}
    return approximate(engine.plans.of(table, known).view, upstream)


def _sources(engine: Engine, relation: Relation) -> frozenset[str]:
    known = {one.id: one for one in relations.every(engine.catalog)}
    views = {table.relation_id: table for table in stream_tables.every(engine.catalog)}
    return sources_of(relation.id, known, views)


def _rows(frame: DataFrame) -> list[Row]:
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def _table_query(relation: Relation, selected: Mapping[str, str], partitioned: frozenset[str]) -> pgsql.Composed:
    schema, _, table = relation.table.partition(".")
    columns = pgsql.SQL(", ").join(map(as_held, relation.schema.columns))
    rows = condition(selected.get(relation.table, "true"))
    only = pgsql.SQL("" if relation.table in partitioned else "ONLY ")
    return pgsql.SQL("SELECT {} FROM {}{} WHERE {}").format(columns, only, pgsql.Identifier(schema, table), rows)


def _view_query(relation: Relation, query: str) -> pgsql.Composed:
    columns = pgsql.SQL(", ").join(map(as_held, relation.schema.columns))
    return pgsql.SQL("SELECT {} FROM ({}) AS view").format(columns, pgsql.SQL(query))
