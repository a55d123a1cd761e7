"""Runs a view's programs on Spark over tables in memory."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from postgres.views.maintained import Row

from penstock.lake.parts import computed_before
from penstock.views import Program, Read, Relation, View, placeholder
from penstock.views.approximate import approximate
from penstock.views.oracle import differing_rows
from penstock.zset import WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Spark:
    """Runs programs over in-memory tables."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def bind(self, read: Read, table: pa.Table) -> None:
        whole = table.combine_chunks()  # Spark 4.2 stops reading at a chunk without rows
        self.session.createDataFrame(whole).coalesce(1).createOrReplaceTempView(placeholder(read))

    def outputs(self, program: Program) -> dict[str, pa.Table]:
        program = program.parted()
        with computed_before(self.session, [(placeholder(part.read), part.sql) for part in program.parts]):
            whole = self.session.sql(program.combined_sql()).toArrow()
        return {name: _of_output(whole, name) for name in program.outputs}


def _of_output(whole: pa.Table, name: str) -> pa.Table:
    kept = whole.filter(whole[name].is_valid()).combine_chunks()
    struct = kept[name].combine_chunks()
    struct = struct.chunk(0) if isinstance(struct, pa.ChunkedArray) else struct
    arrays = [struct.field(i) for i in range(struct.type.num_fields)]
    return pa.table([*arrays, kept[WEIGHT]], names=[*(f.name for f in struct.type), WEIGHT])


def arrow(found: Relation, rows: list[Row], weights: list[int] | None = None) -> pa.Table:
    schema = found.schema.arrow()
    arrays = []
    for place, field in enumerate(schema):
        values = [row[place] for row in rows]
        if pa.types.is_decimal(field.type):
            values = [None if v is None else Decimal(v) for v in values]
        arrays.append(pa.array(values, field.type))
    if weights is None:
        return pa.table(arrays, schema=schema)
    return pa.table([*arrays, pa.array(weights, pa.int64())], names=[*schema.names, WEIGHT])


def same(found: list[Row], expected: list[Row], view: View) -> None:
    expected = [tuple(map(_comparable, row)) for row in expected]
    found = [tuple(map(_comparable, row)) for row in found]
    missing, extra = differing_rows(expected, found, view.columns, approximate(view))
    pairs = sorted(zip(sorted(missing, key=str), sorted(extra, key=str), strict=False), key=str)
    differences = [
        f"{column.name} {view.sql}: PostgreSQL {a!r}, Spark {b!r}"
        for wanted, got in pairs for column, a, b in zip(view.columns, wanted, got, strict=True) if str(a) != str(b)
    ]  # fmt: skip
    assert not missing, "\n".join(differences) or missing
    assert not extra, "\n".join(differences) or extra


def _comparable(value: Any) -> Any:
    return str(value) if type(value).__name__ == "UUID" else value
