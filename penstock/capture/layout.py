"""How the values of a table's columns come and what becomes of them: worked out once for all chunks of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.capture.binary_columns import is_text, width_of
from penstock.capture.fields import Bytes, Ints, limit_of
from penstock.capture.kernels.columns import DECIMAL, PLACE, TEXT
from penstock.relation.schema import Column


@dataclass(frozen=True)
class Layout:
    """`kinds` says what becomes of the values (`kernels/columns.py`), `numerics` the scale and the limit of decimals.

    Texts are counted by themselves, and so are places: `ordinals` has the number of each.
    """

    types: tuple[pa.DataType, ...]
    kinds: Bytes
    numerics: Ints
    ordinals: tuple[int, ...]
    texts: int
    places: int

    @classmethod
    def of(cls, columns: Sequence[Column], sends: Sequence[str]) -> Layout:
        types = tuple(column.arrow for column in columns)
        kinds = np.array([_kind(arrow, send) for arrow, send in zip(types, sends, strict=True)], np.uint8)
        numerics = np.zeros((len(columns), 3), np.int64)
        for number in np.flatnonzero(kinds == DECIMAL):
            arrow = types[number]
            numerics[number] = np.array([arrow.scale, *limit_of(arrow)], np.uint64).view(np.int64)
        ordinals = tuple(int((kinds[:index] == kind).sum()) for index, kind in enumerate(kinds))
        return cls(types, kinds, numerics, ordinals, int((kinds == TEXT).sum()), int((kinds == PLACE).sum()))


def _kind(arrow: pa.DataType, send: str) -> int:
    return TEXT if is_text(arrow, send) else width_of(arrow, send)
