"""PostgreSQL's text of a column's values into Arrow: exact, or a DecodeError that names the value."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.fields import Fields, ValueRefused
from penstock.capture.kernels.gather import gather_hex


def from_text(fields: Fields, arrow: pa.DataType) -> pa.Array:
    if arrow == pa.binary():
        return _bytea(fields)
    texts = fields.strings()
    if arrow == pa.string():
        return texts
    convert = _boolean if arrow == pa.bool_() else _cast(arrow)
    try:
        return convert(texts)
    except pa.ArrowInvalid:
        raise _first_refused(texts, convert) from None


def _cast(arrow: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    return lambda texts: pc.cast(texts, arrow)


def _boolean(texts: pa.Array) -> pa.Array:
    known = pc.is_in(texts, value_set=pa.array(["t", "f", None]))
    if not pc.all(known).as_py():
        raise pa.ArrowInvalid("not a boolean")
    return pc.equal(texts, "t")


def _bytea(fields: Fields) -> pa.Array:
    bad, bounds, data = gather_hex(fields.data, fields.offsets, fields.lengths)
    if bad >= 0:
        raise ValueRefused(bad, fields.text(bad))
    return fields.variable(pa.binary(), bounds, data)


def _first_refused(texts: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> ValueRefused:
    """Halve until one value is left: only a failing column pays for it."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(texts.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return ValueRefused(low, str(texts[low].as_py()))
