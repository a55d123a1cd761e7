"""A stream table computed anew by Spark from the relations it reads, at its own frontier, and compared both ways.

EXCEPT ALL finds what is on one side only; values that are only about equal (`approximate`) are then told apart from
those that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.catalog.relations import Relation
from penstock.catalog.stream_tables import StreamTable
from penstock.cut import Frontier
from penstock.lake.reader import Reader
from penstock.lake.session import quoted
from penstock.refresh import compute
from penstock.refresh.verification import Difference, Row, difference
from penstock.views.approximate import Rooms
from penstock.views.oracle import differing_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.refresh.engine import Engine


def compare(
    engine: Engine,
    table: StreamTable,
    known: Sequence[Relation],
    relation: Relation,
    position: int,
    at: Frontier,
    loose: Rooms,
) -> tuple[int, Difference | None]:
    """How many rows are stored, and how they differ from what the query gives."""
    names = [quoted(name) for name in relation.schema.names]
    reader = Reader(engine.home, engine.catalog, lambda: engine.spark)  # what is on disk, not what another remembers
    stored = reader.rows(relation, position).select(*names)
    inputs = {one.name: engine.position(one.name, at)[:2] for one in known if one.id in table.inputs}
    expected = compute.anew(reader, engine.plans.of(table, known), inputs).select(*names)
    missing, extra = _rows(expected.exceptAll(stored)), _rows(stored.exceptAll(expected))
    missing, extra = differing_rows(missing, extra, relation.schema.columns, loose)
    rows = stored.count()
    if not missing and not extra:
        return rows, None
    return rows, difference(relation.name, missing, extra, relation.schema.names, relation.schema.key)


def _rows(frame: DataFrame) -> list[Row]:
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]
