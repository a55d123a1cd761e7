"""The ranges of values that changes reach, as a condition on a scan: files and row groups outside them are skipped.

For states that are read whole because too many rows matter to be looked up. Rows outside match nothing that changed, so
they make no difference (`views/reach.py`). A range and not a list of the values: Spark takes longer over a long IN list
than over the scan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from penstock.lake.session import quoted


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included, and NULL where `null`."""

    low: int | date
    high: int | date
    null: bool


Box = Mapping[str, Range]  # a range for each of some columns


def ranges(wanted: Sequence[pa.Table]) -> list[Box]:
    """A box around the rows of each table; none at all if one of them has no column whose order statistics tell."""
    boxes: list[Box] = [
        {name: found for name in values.column_names if (found := _range(values[name])) is not None}
        for values in wanted
    ]
    return boxes if all(boxes) else []


def _range(values: pa.ChunkedArray) -> Range | None:
    ordered = pa.types.is_integer(values.type) or pa.types.is_date(values.type)
    if not ordered or values.null_count == len(values):
        return None
    ends = pc.min_max(values).as_py()
    return Range(ends["min"], ends["max"], values.null_count > 0)


def inside(boxes: Sequence[Box]) -> SparkColumn:
    """True for rows in any of the boxes."""
    each = [reduce(lambda a, b: a & b, [_within(name, one) for name, one in box.items()]) for box in boxes]
    return reduce(lambda a, b: a | b, each)


def _within(name: str, one: Range) -> SparkColumn:
    column = F.col(quoted(name))
    found = column.between(F.lit(one.low), F.lit(one.high))
    return found | column.isNull() if one.null else found


def text(boxes: Sequence[Box]) -> str:
    """The same for people."""
    each = [" and ".join(f"{name} from {one.low} to {one.high}" for name, one in box.items()) for box in boxes]
    return " or ".join(each)
