"""PostgreSQL's binary form of a column's values into Arrow: exact, or a refusal that names the value.

A type is known by its send function, so domains and enums over text come in without being listed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.fields import Bytes, Fields, Ints, ValueRefused
from penstock.capture.kernels import arrays, binary, texts
from penstock.capture.kernels.gather import gather
from penstock.capture.lists import list_array, refuse_array
from penstock.capture.messages import PG_EPOCH, PG_EPOCH_MICROS
from penstock.relation.types import INTERVAL, POINT, UTC_MICROS

_Build = Callable[[Fields, pa.DataType], pa.Array]
_Texts = Callable[..., tuple[int, npt.NDArray[np.int32], Bytes]]

# Send functions whose bytes are the value's text.
_TEXT_SENDS = frozenset({"textsend", "varcharsend", "bpcharsend", "namesend", "json_send", "enum_send", "citextsend"})
_NAN, _INFINITY, _MINUS_INFINITY = 0xC000, 0xD000, 0xF000
_DAY = 86_400

# 0001-01-01 and 9999-12-31: what Arrow's readers and Spark agree on. Both infinities lie outside.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def is_binary(arrow: pa.DataType, send: str) -> bool:
    """Whether the kernels know the binary form; every other type is asked for as text."""
    return _builder(arrow, send) is not None


def from_binary(fields: Fields, arrow: pa.DataType, send: str) -> pa.Array:
    build = _builder(arrow, send)
    if build is None:
        raise ValueRefused(0, f"{fields.raw(0)!r} in the unknown form of {send}", fits_text=False)
    return build(fields, arrow)


def _builder(arrow: pa.DataType, send: str) -> _Build | None:
    if pa.types.is_list(arrow):
        return _list(arrow, send)
    name = send.rpartition(".")[2]
    if arrow == pa.string():
        return _text if name in _TEXT_SENDS else _AS_TEXT.get(name)
    if pa.types.is_decimal(arrow):
        return _decimal if name == "numeric_send" else None
    expected, build = _NATIVE.get(name, (None, None))
    return build if arrow == expected else None


def _list(arrow: pa.DataType, send: str) -> _Build | None:
    """Arrays whose elements' form is known."""
    own, _, element = send.partition(":")
    if own.rpartition(".")[2] != "array_send" or _builder(arrow.value_type, element) is None:
        return None

    def build(fields: Fields, arrow: pa.DataType) -> pa.Array:
        row, code, bounds, offsets, lengths = arrays.from_sent(fields.data, fields.offsets, fields.lengths)
        if code != arrays.FITS:
            raise refuse_array(row, code, repr(fields.raw(row)))
        inner = Fields(fields.data, offsets, lengths)
        return list_array(fields, arrow, bounds, lambda: from_binary(inner, arrow.value_type, element))

    return build


def _text(fields: Fields, _: pa.DataType) -> pa.Array:
    return fields.strings()


def _printed(kernel: _Texts, *options: bool) -> _Build:
    """What PostgreSQL would print, made by a kernel."""

    def build(fields: Fields, _: pa.DataType) -> pa.Array:
        bad, bounds, data = kernel(fields.data, fields.offsets, fields.lengths, *options)
        _refuse(fields, bad)
        return fields.variable(pa.string(), bounds, data)

    return build


def _jsonb(fields: Fields, _: pa.DataType) -> pa.Array:
    """A version byte, then the text."""
    present = fields.lengths >= 0
    versions = fields.data[fields.offsets[present]]
    if (versions != 1).any() or (fields.lengths[present] < 1).any():
        raise ValueRefused(int(np.flatnonzero(present)[0]), "jsonb of an unknown version", fits_text=False)
    return Fields(fields.data, fields.offsets + 1, np.where(present, fields.lengths - 1, fields.lengths)).strings()


def _bytea(fields: Fields, arrow: pa.DataType) -> pa.Array:
    return fields.variable(arrow, *gather(fields.data, fields.offsets, fields.lengths))


def _integers(fields: Fields, width: int) -> Ints:
    values = np.empty(len(fields), np.int64)
    _refuse(fields, binary.integers(fields.data, fields.offsets, fields.lengths, width, values))
    return values


def _fixed(width: int, dtype: npt.DTypeLike) -> _Build:
    return lambda fields, arrow: fields.fixed(arrow, _integers(fields, width).astype(dtype))


def _oid(fields: Fields, arrow: pa.DataType) -> pa.Array:
    return fields.fixed(arrow, _integers(fields, 4) & 0xFFFFFFFF)


def _unsigned(fields: Fields, _: pa.DataType) -> pa.Array:
    """xid and its kin: numbers that are names."""
    return pc.cast(fields.fixed(pa.int64(), _integers(fields, 4) & 0xFFFFFFFF), pa.string())


def _interval(fields: Fields, arrow: pa.DataType) -> pa.Array:
    parts = [fields.part(0, 8, 16), fields.part(8, 4, 16), fields.part(12, 4, 16)]
    micros, days, months = (_integers(part, width) for part, width in zip(parts, (8, 4, 4), strict=True))
    children = [pa.array(months.astype(np.int32)), pa.array(days.astype(np.int32)), pa.array(micros)]
    return fields.struct(arrow, children)


def _point(fields: Fields, arrow: pa.DataType) -> pa.Array:
    x, y = (_integers(fields.part(at, 8, 16), 8).view(np.float64) for at in (0, 8))
    return fields.struct(arrow, [pa.array(x), pa.array(y)])


def _boolean(fields: Fields, arrow: pa.DataType) -> pa.Array:
    return fields.fixed(arrow, np.packbits(_integers(fields, 1) != 0, bitorder="little"))


def _date(fields: Fields, arrow: pa.DataType) -> pa.Array:
    days = _integers(fields, 4)
    epoch = PG_EPOCH // _DAY
    if not binary.move(days, _FIRST_DAY - epoch, _LAST_DAY - epoch, epoch):
        raise _beyond(fields, days, _FIRST_DAY - epoch, _LAST_DAY - epoch, infinity=(1 << 31) - 1)
    return fields.fixed(arrow, days.astype(np.int32))


def _timestamp(fields: Fields, arrow: pa.DataType) -> pa.Array:
    micros = _integers(fields, 8)
    first = _FIRST_DAY * _DAY * 1_000_000 - PG_EPOCH_MICROS
    last = (_LAST_DAY + 1) * _DAY * 1_000_000 - PG_EPOCH_MICROS - 1
    if not binary.move(micros, first, last, PG_EPOCH_MICROS):
        raise _beyond(fields, micros, first, last, infinity=(1 << 63) - 1)
    return fields.fixed(arrow, micros)


def _decimal(fields: Fields, arrow: pa.DataType) -> pa.Array:
    limit = 10**arrow.precision
    values = np.empty((len(fields), 2), np.uint64)
    bad = binary.decimals(
        fields.data,
        fields.offsets,
        fields.lengths,
        arrow.scale,
        np.uint64(limit >> 64),
        np.uint64(limit & 0xFFFFFFFFFFFFFFFF),
        values,
    )
    if bad >= 0:
        raise ValueRefused(bad, numeric_text(fields.raw(bad)))
    return fields.fixed(arrow, values)


def numeric_text(raw: bytes) -> str:
    """How PostgreSQL writes a numeric; for messages only.

    >>> numeric_text(bytes.fromhex("00020000000000020001 1388".replace(" ", "")))
    '1.50'
    """
    count, weight, sign, scale = struct.unpack_from("!HhHH", raw)
    if sign in (_NAN, _INFINITY, _MINUS_INFINITY):
        return {_NAN: "NaN", _INFINITY: "Infinity", _MINUS_INFINITY: "-Infinity"}[sign]
    digits = struct.unpack_from(f"!{count}H", raw, 8)
    whole = "".join(f"{digits[i] if i < count else 0:04}" for i in range(weight + 1)).lstrip("0") or "0"
    places = range(weight + 1, weight + 1 + -(-scale // 4)) if scale else range(0)
    fraction = "".join(f"{digits[i] if 0 <= i < count else 0:04}" for i in places)[:scale]
    return f"{'-' if sign else ''}{whole}{'.' if fraction else ''}{fraction}"


def _refuse(fields: Fields, bad: int) -> None:
    if bad >= 0:
        raise ValueRefused(bad, f"{fields.raw(bad)!r} of a wrong length", fits_text=False)


def _beyond(fields: Fields, values: Ints, first: int, last: int, *, infinity: int) -> ValueRefused:
    """The first that is no time of the years that can be held; NULLs are 0 among the values, which is one."""
    row = int(np.flatnonzero((values < first) | (values > last))[0])
    raw = int(values[row])
    if raw not in (infinity, -infinity - 1):
        return ValueRefused(row, "a time outside the years 0001 to 9999")
    return ValueRefused(row, "infinity" if raw > 0 else "-infinity")


_AS_TEXT: dict[str, _Build] = {
    "jsonb_send": _jsonb,
    "uuid_send": _printed(binary.uuids),
    "numeric_send": _printed(texts.numerics),
    "date_send": _printed(texts.dates),
    "timestamp_send": _printed(texts.timestamps, False),
    "timestamptz_send": _printed(texts.timestamps, True),
    "time_send": _printed(texts.times, False),
    "timetz_send": _printed(texts.times, True),
    "cash_send": _printed(texts.moneys),
    "bit_send": _printed(texts.bits),
    "varbit_send": _printed(texts.bits),
    "inet_send": _printed(texts.addresses),
    "cidr_send": _printed(texts.addresses),
    "macaddr_send": _printed(texts.hardware_addresses),
    "macaddr8_send": _printed(texts.hardware_addresses),
    "xidsend": _unsigned,
    "cidsend": _unsigned,
}
_NATIVE: dict[str, tuple[pa.DataType, _Build]] = {
    "boolsend": (pa.bool_(), _boolean),
    "byteasend": (pa.binary(), _bytea),
    "int2send": (pa.int16(), _fixed(2, np.int16)),
    "int4send": (pa.int32(), _fixed(4, np.int32)),
    "int8send": (pa.int64(), _fixed(8, np.int64)),
    "oidsend": (pa.int64(), _oid),
    "float4send": (pa.float32(), _fixed(4, np.int32)),
    "float8send": (pa.float64(), _fixed(8, np.int64)),
    "date_send": (pa.date32(), _date),
    "timestamp_send": (pa.timestamp("us"), _timestamp),
    "timestamptz_send": (UTC_MICROS, _timestamp),
    "interval_send": (INTERVAL, _interval),
    "point_send": (POINT, _point),
}
