"""How the values of a table's columns come and what becomes of them: worked out once for all chunks of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.capture.binary_columns import limit_of, width_of
from penstock.capture.fields import Bytes, Ints
from penstock.capture.kernels.columns import DECIMAL
from penstock.relation.schema import Column


@dataclass(frozen=True)
class Layout:
    """`widths` are the bytes of numbers, 0 for other values; `numerics` the scale and the limit of decimals."""

    types: tuple[pa.DataType, ...]
    widths: Bytes
    numerics: Ints

    @classmethod
    def of(cls, columns: Sequence[Column], sends: Sequence[str]) -> Layout:
        types = tuple(column.arrow for column in columns)
        widths = np.array([width_of(arrow, send) for arrow, send in zip(types, sends, strict=True)], np.uint8)
        numerics = np.zeros((len(columns), 3), np.int64)
        for number in np.flatnonzero(widths == DECIMAL):
            arrow = types[number]
            numerics[number] = np.array([arrow.scale, *limit_of(arrow)], np.uint64).view(np.int64)
        return cls(types, widths, numerics)
