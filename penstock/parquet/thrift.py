"""Thrift's compact protocol, as far as Parquet's metadata needs it: a value is its kind and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_TRUE, _FALSE, _I8, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
_ONE_BYTE = [bytes([value]) for value in range(256)]
_SHORT_LIST, _SHORT_STEP = 15, 16


class Value(NamedTuple):
    kind: int
    encoded: bytes


def varint(value: int) -> bytes:
    """Seven bits a byte, the low ones first.

    >>> varint(5).hex(), varint(300).hex()
    ('05', 'ac02')
    """
    if value < 128:
        return _ONE_BYTE[value]
    if value < 1 << 14:
        return _ONE_BYTE[value & 127 | 128] + _ONE_BYTE[value >> 7]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def i8(value: int) -> Value:
    return Value(_I8, value.to_bytes(1, signed=True))


def i16(value: int) -> Value:
    return Value(_I16, _zigzag(value))


def i32(value: int) -> Value:
    return Value(_I32, _zigzag(value))


def i64(value: int) -> Value:
    return Value(_I64, _zigzag(value))


def boolean(value: bool) -> Value:
    """As a field of a struct, where the kind says it all."""
    return Value(_TRUE if value else _FALSE, b"")


def binary(value: bytes) -> Value:
    return Value(_BINARY, varint(len(value)) + value)


def text(value: str) -> Value:
    return binary(value.encode())


def items(values: Sequence[Value]) -> Value:
    """All of one kind; a list of none is said to be one of structs."""
    count, kind = len(values), values[0].kind if values else _STRUCT
    head = _ONE_BYTE[count << 4 | kind] if count < _SHORT_LIST else bytes([0xF0 | kind]) + varint(count)
    return Value(_LIST, head + b"".join([value.encoded for value in values]))


def struct(fields: Mapping[int, Value | None]) -> Value:
    """Fields by number, from the lowest on; None is left out.

    >>> struct({1: i32(3), 4: text("id"), 21: struct({2: boolean(True)}), 22: None}).encoded.hex()
    '1506380269640c2a210000'
    """
    out, last = [], 0
    for number, value in fields.items():
        if value is not None:
            step = number - last
            kind, encoded = value
            out.append(_ONE_BYTE[step << 4 | kind] if step < _SHORT_STEP else _ONE_BYTE[kind] + _zigzag(number))
            out.append(encoded)
            last = number
    out.append(b"\0")
    return Value(_STRUCT, b"".join(out))
