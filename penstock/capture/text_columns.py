"""PostgreSQL's text of a column's values into Arrow: exact, or a refusal that names the value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.fields import Fields, Ints, ValueRefused
from penstock.capture.kernels import arrays
from penstock.capture.kernels.gather import gather_hex
from penstock.capture.lists import list_array, refuse_array
from penstock.relation.types import INTERVAL, POINT

_Convert = Callable[[pa.Array], pa.Array]

_POINT = r"^\((?P<x>[^,]+),(?P<y>[^,]+)\)$"
_INTERVAL = (
    r"^(?:(?P<year>-?\d+) years?)? ?(?:(?P<month>[+-]?\d+) mons?)? ?(?:(?P<day>[+-]?\d+) days?)? ?"
    r"(?:(?P<sign>[+-]?)(?P<hour>\d+):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?$"
)
_INT32, _INT64 = np.iinfo(np.int32), np.iinfo(np.int64)


def from_text(fields: Fields, arrow: pa.DataType) -> pa.Array:
    if arrow == pa.binary():
        return _bytea(fields)
    if pa.types.is_list(arrow):
        return _list(fields, arrow)
    texts = fields.strings()
    if arrow == pa.string():
        return texts
    convert = _conversion(arrow)
    try:
        return convert(texts)
    except pa.ArrowInvalid:
        raise _first_refused(texts, convert, fits_text=_has_values_beyond(arrow)) from None


def _conversion(arrow: pa.DataType) -> _Convert:
    known = {pa.bool_(): _boolean, INTERVAL: _interval, POINT: _point}
    return known.get(arrow) or (lambda texts: pc.cast(texts, arrow))


def _boolean(texts: pa.Array) -> pa.Array:
    known = pc.is_in(texts, value_set=pa.array(["t", "f", None]))
    if not pc.all(known).as_py():
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
    found = _matched(texts, _POINT)
    return _struct(POINT, texts, [pc.cast(pc.struct_field(found, name), pa.float64()) for name in ("x", "y")])


def _interval(texts: pa.Array) -> pa.Array:
    """IntervalStyle postgres; the infinities are the extremes of all three fields, as they are sent."""
    late, early = (pc.fill_null(pc.equal(texts, name), False).to_numpy(False) for name in ("infinity", "-infinity"))
    finite = pc.if_else(pa.array(late | early), pa.scalar("00:00:00"), texts)
    found = _matched(finite, _INTERVAL)
    months = 12 * _whole(found, "year") + _whole(found, "month")
    fraction = pc.utf8_rpad(pc.struct_field(found, "fraction"), 6, "0")
    seconds = 3600 * _whole(found, "hour") + 60 * _whole(found, "minute") + _whole(found, "second")
    micros = 1_000_000 * seconds + _numbers(fraction)  # the least interval wraps around to itself
    negative = pc.fill_null(pc.equal(pc.struct_field(found, "sign"), "-"), False).to_numpy(False)
    micros = np.where(negative, -micros, micros)
    limits = ((months, _INT32), (_whole(found, "day"), _INT32), (micros, _INT64))
    filled = [np.where(late, limit.max, np.where(early, limit.min, values)) for values, limit in limits]
    children = [pa.array(values.astype(dtype)) for values, dtype in zip(filled, ("i4", "i4", "i8"), strict=True)]
    return _struct(INTERVAL, texts, children)


def _matched(texts: pa.Array, pattern: str) -> pa.Array:
    found = pc.extract_regex(texts, pattern)
    if found.null_count != texts.null_count:
        raise pa.ArrowInvalid("not of this form")
    return found


def _whole(found: pa.Array, name: str) -> Ints:
    return _numbers(pc.replace_substring_regex(pc.struct_field(found, name), r"^\+", ""))


def _numbers(texts: pa.Array) -> Ints:
    """Integers, 0 where there is nothing."""
    written = pc.if_else(pc.fill_null(pc.equal(texts, ""), True), pa.scalar("0"), texts)
    numbers: Ints = pc.cast(written, pa.int64()).to_numpy()
    return numbers


def _struct(arrow: pa.DataType, texts: pa.Array, children: list[pa.Array]) -> pa.Array:
    return pa.StructArray.from_arrays(children, fields=list(arrow), mask=pc.is_null(texts))


def _has_values_beyond(arrow: pa.DataType) -> bool:
    """Of any other type, a text that cannot be read is no value at all."""
    return bool(pa.types.is_decimal(arrow) or pa.types.is_date(arrow) or pa.types.is_timestamp(arrow))


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
