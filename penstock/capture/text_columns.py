"""PostgreSQL's text of a column's values into Arrow: exact, or a refusal that names the value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.fields import Fields, Numbers, ValueRefused, limit_of
from penstock.capture.kernels import arrays, decimals, intervals
from penstock.capture.kernels.gather import gather_hex
from penstock.capture.lists import list_array, refuse_array
from penstock.relation.types import INTERVAL, POINT

_Convert = Callable[[pa.Array], pa.Array]

_POINT = r"^\((?P<x>[^,]+),(?P<y>[^,]+)\)$"


def from_text(fields: Fields, arrow: pa.DataType) -> pa.Array:
    if arrow == pa.binary():
        return _bytea(fields)
    if pa.types.is_list(arrow):
        return _list(fields, arrow)
    if arrow == INTERVAL:
        return _interval(fields)
    if pa.types.is_decimal(arrow):
        return _decimal(fields, arrow)
    texts = fields.strings()
    if arrow == pa.string():
        return texts
    convert = _conversion(arrow)
    try:
        return convert(texts)
    except pa.ArrowInvalid:
        raise _first_refused(texts, convert, fits_text=_has_values_beyond(arrow)) from None


def _conversion(arrow: pa.DataType) -> _Convert:
    known = {pa.bool_(): _boolean, POINT: _point}
    return known.get(arrow) or (lambda texts: pc.cast(texts, arrow))


def _boolean(texts: pa.Array) -> pa.Array:
    known = pc.is_in(texts, value_set=pa.array(["t", "f", None]))
    if not pc.all(known, min_count=0).as_py():
        raise pa.ArrowInvalid("not a boolean")
    return pc.equal(texts, "t")


def _bytea(fields: Fields) -> pa.Array:
    bad, bounds, data = gather_hex(fields.data, fields.offsets, fields.lengths)
    if bad >= 0:
        raise ValueRefused(bad, fields.text(bad), fits_text=False)
    return fields.variable(pa.binary(), bounds, data)


def _list(fields: Fields, arrow: pa.DataType) -> pa.Array:
    row, code, bounds, data, offsets, lengths = arrays.from_text(fields.data, fields.offsets, fields.lengths)
    if code != arrays.FITS:
        raise refuse_array(row, code, fields.text(row))
    inner = Fields(data, offsets, lengths)
    return list_array(fields, arrow, bounds, lambda: from_text(inner, arrow.value_type))


def _point(texts: pa.Array) -> pa.Array:
    found = pc.extract_regex(texts, _POINT)
    if found.null_count != texts.null_count:
        raise pa.ArrowInvalid("not a point")
    children = [pc.cast(pc.struct_field(found, name), pa.float64()) for name in ("x", "y")]
    return pa.StructArray.from_arrays(children, fields=list(POINT), mask=pc.is_null(texts))


def _interval(fields: Fields) -> pa.Array:
    count = len(fields)
    months, days, micros = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int64)
    bad = intervals.parse(fields.data, fields.offsets, fields.lengths, months, days, micros)
    if bad >= 0:
        raise ValueRefused(bad, fields.text(bad), fits_text=False)
    return fields.struct(INTERVAL, [pa.array(months), pa.array(days), pa.array(micros)])


def _decimal(fields: Fields, arrow: pa.DataType) -> pa.Array:
    values = np.empty((len(fields), 2), np.uint64)
    bad = decimals.parse(fields.data, fields.offsets, fields.lengths, arrow.scale, *limit_of(arrow), values)
    if bad >= 0:
        raise ValueRefused(bad, fields.text(bad))
    return Numbers(values, fields.valid_bits()).array(arrow)


def _has_values_beyond(arrow: pa.DataType) -> bool:
    """Of any other type, a text that cannot be read is no value at all."""
    return bool(pa.types.is_date(arrow) or pa.types.is_timestamp(arrow))


def _first_refused(texts: pa.Array, convert: _Convert, *, fits_text: bool) -> ValueRefused:
    """Halve until one value is left: only a failing column pays for it."""
    low, high = 0, len(texts)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(texts.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return ValueRefused(low, str(texts[low].as_py()), fits_text=fits_text)
