"""PostgreSQL's binary form of a column's values into Arrow: exact, or a refusal that names the value.

A type is known by its send function, so domains and enums over text come in without being listed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.fields import Bytes, Fields, Numbers, ValueRefused, limit_of
from penstock.capture.kernels import arrays, binary, texts
from penstock.capture.kernels.columns import DECIMAL
from penstock.capture.kernels.gather import gather
from penstock.capture.lists import list_array, refuse_array
from penstock.capture.messages import PG_EPOCH, PG_EPOCH_MICROS
from penstock.relation.types import INTERVAL, POINT, UTC_MICROS

_Build = Callable[[Fields, pa.DataType], pa.Array]
_Finish = Callable[[Numbers, pa.DataType], pa.Array]
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


def is_text(arrow: pa.DataType, send: str) -> bool:
    """Whether the bytes of a value are those of its text."""
    return bool(arrow == pa.string()) and _name(send) in _TEXT_SENDS


def width_of(arrow: pa.DataType, send: str) -> int:
    """Bytes of each value, if they are numbers that `from_numbers` makes a column of; else 0."""
    name = _name(send)
    if pa.types.is_decimal(arrow) and name == "numeric_send":
        return DECIMAL
    expected, width, _ = _NUMBERS.get(name, (None, 0, None))
    return width if arrow == expected else 0


def from_numbers(numbers: Numbers, arrow: pa.DataType, send: str) -> pa.Array:
    """What `from_binary` gives, of values that are decoded already."""
    return numbers.array(arrow) if pa.types.is_decimal(arrow) else _NUMBERS[_name(send)][2](numbers, arrow)


def from_binary(fields: Fields, arrow: pa.DataType, send: str) -> pa.Array:
    build = _builder(arrow, send)
    if build is None:
        raise ValueRefused(0, f"{fields.raw(0)!r} in the unknown form of {send}", fits_text=False)
    return build(fields, arrow)


def _builder(arrow: pa.DataType, send: str) -> _Build | None:
    if pa.types.is_list(arrow):
        return _list(arrow, send)
    name = _name(send)
    if arrow == pa.string():
        return _text if name in _TEXT_SENDS else _AS_TEXT.get(name)
    if pa.types.is_decimal(arrow):
        return _decimal if name == "numeric_send" else None
    if width_of(arrow, name):
        _, width, finish = _NUMBERS[name]
        return lambda fields, arrow: finish(Numbers(_integers(fields, width), fields.valid_bits()), arrow)
    expected, build = _NATIVE.get(name, (None, None))
    return build if arrow == expected else None


def _name(send: str) -> str:
    """Without the schema of an extension, and without the elements of an array.

    >>> _name("public.citextsend"), _name("array_send:public.citextsend")
    ('citextsend', 'array_send')
    """
    return send.partition(":")[0].rpartition(".")[2]


def _list(arrow: pa.DataType, send: str) -> _Build | None:
    """Arrays whose elements' form is known."""
    own, _, element = send.partition(":")
    if _name(own) != "array_send" or _builder(arrow.value_type, element) is None:
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


def _integers(fields: Fields, width: int) -> npt.NDArray[np.integer]:
    values = np.empty(len(fields), np.int64)
    _refuse(fields, binary.integers(fields.data, fields.offsets, fields.lengths, width, values))
    return values.astype(f"i{width}", copy=False)


def _plain(numbers: Numbers, arrow: pa.DataType) -> pa.Array:
    return numbers.array(arrow)


def _oid(numbers: Numbers, arrow: pa.DataType) -> pa.Array:
    return replace(numbers, values=numbers.values.view(np.uint32).astype(np.int64)).array(arrow)


def _unsigned(fields: Fields, _: pa.DataType) -> pa.Array:
    """xid and its kin: numbers that are names."""
    return pc.cast(_oid(Numbers(_integers(fields, 4), fields.valid_bits()), pa.int64()), pa.string())


def _interval(fields: Fields, arrow: pa.DataType) -> pa.Array:
    parts = [fields.part(0, 8, 16), fields.part(8, 4, 16), fields.part(12, 4, 16)]
    micros, days, months = (_integers(part, width) for part, width in zip(parts, (8, 4, 4), strict=True))
    children = [pa.array(months.astype(np.int32)), pa.array(days.astype(np.int32)), pa.array(micros)]
    return fields.struct(arrow, children)


def _point(fields: Fields, arrow: pa.DataType) -> pa.Array:
    x, y = (_integers(fields.part(at, 8, 16), 8).view(np.float64) for at in (0, 8))
    return fields.struct(arrow, [pa.array(x), pa.array(y)])


def _boolean(numbers: Numbers, arrow: pa.DataType) -> pa.Array:
    bits = pa.py_buffer(np.packbits(numbers.values != 0, bitorder="little"))
    return pa.Array.from_buffers(arrow, len(numbers.values), [numbers.valid, bits])


def _date(numbers: Numbers, arrow: pa.DataType) -> pa.Array:
    epoch = PG_EPOCH // _DAY
    if not binary.move(numbers.values, _FIRST_DAY - epoch, _LAST_DAY - epoch, epoch):
        raise _beyond(numbers, _FIRST_DAY - epoch, _LAST_DAY - epoch, infinity=(1 << 31) - 1)
    return numbers.array(arrow)


def _timestamp(numbers: Numbers, arrow: pa.DataType) -> pa.Array:
    first = _FIRST_DAY * _DAY * 1_000_000 - PG_EPOCH_MICROS
    last = (_LAST_DAY + 1) * _DAY * 1_000_000 - PG_EPOCH_MICROS - 1
    if not binary.move(numbers.values, first, last, PG_EPOCH_MICROS):
        raise _beyond(numbers, first, last, infinity=(1 << 63) - 1)
    return numbers.array(arrow)


def _decimal(fields: Fields, arrow: pa.DataType) -> pa.Array:
    values = np.empty((len(fields), 2), np.uint64)
    bad = binary.decimals(fields.data, fields.offsets, fields.lengths, arrow.scale, *limit_of(arrow), values)
    if bad >= 0:
        raise ValueRefused(bad, numeric_text(fields.raw(bad)))
    return Numbers(values, fields.valid_bits()).array(arrow)


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


def _beyond(numbers: Numbers, first: int, last: int, *, infinity: int) -> ValueRefused:
    """The first that is no time of the years that can be held; NULLs are 0 among the values, which is one."""
    values = numbers.values
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
    "byteasend": (pa.binary(), _bytea),
    "interval_send": (INTERVAL, _interval),
    "point_send": (POINT, _point),
}
_NUMBERS: dict[str, tuple[pa.DataType, int, _Finish]] = {
    "boolsend": (pa.bool_(), 1, _boolean),
    "int2send": (pa.int16(), 2, _plain),
    "int4send": (pa.int32(), 4, _plain),
    "int8send": (pa.int64(), 8, _plain),
    "oidsend": (pa.int64(), 4, _oid),
    "float4send": (pa.float32(), 4, _plain),
    "float8send": (pa.float64(), 8, _plain),
    "date_send": (pa.date32(), 4, _date),
    "timestamp_send": (pa.timestamp("us"), 8, _timestamp),
    "timestamptz_send": (UTC_MICROS, 8, _timestamp),
}
