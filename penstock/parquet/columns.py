"""How the columns of each Arrow type are written: their type in Parquet, their encoding, their values as bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct, pack
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.parquet import kernels
from penstock.parquet.thrift import Value, boolean, i8, i32, struct

BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = 0, 1, 2, 4, 5, 6, 7
PLAIN, PACKED = 0, 5
_UTF8, _DECIMAL, _DATE, _MICROS, _INT_16 = 0, 5, 6, 10, 16
_SHORT_DIGITS, _LONG_DIGITS = 9, 18  # of decimals that four and eight bytes hold
_LONGEST = 4096  # bytes of a text that is told as an extreme

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]
Texts = tuple[npt.NDArray[np.int32], Bytes]
Room = Callable[[int], Bytes]


@dataclass(frozen=True)
class Column:
    """`taken` gives what the others need of an array without NULLs. `values` writes it into room that it asks for, and
    says how many bytes it took. `extremes` has the least and the greatest of one that is not empty, if there are such,
    and `spell` them as bytes."""

    physical: int
    encoding: int
    taken: Callable[[pa.Array], Any]
    values: Callable[[Any, Room], int]
    extremes: Callable[[Any], tuple[Any, Any] | None]
    spell: Callable[[Any, Any], tuple[bytes, bytes]]
    compressible: bool = False
    size: int = 0
    converted: int | None = None
    logical: Value | None = None


def column_of(arrow: pa.DataType) -> Column | None:
    """None for types that are left to Arrow: nested ones, and those that no column of PostgreSQL becomes."""
    return _decimal(arrow) if pa.types.is_decimal128(arrow) else _COLUMNS.get(arrow)


def _integers(physical: int, numbers: Callable[[pa.Array], Numbers], converted: int | None, logical: Value) -> Column:
    both = Struct("<i" if physical == INT32 else "<q")

    def values(found: Numbers, room: Room) -> int:
        return int(kernels.pack(found, room(kernels.packed_room(len(found))), np.empty(kernels.BLOCK, np.int64)))

    def extremes(found: Numbers) -> tuple[int, int]:
        low, high = kernels.extremes(found)
        return int(low), int(high)

    def spell(low: int, high: int) -> tuple[bytes, bytes]:
        return both.pack(low), both.pack(high)

    return Column(physical, PACKED, numbers, values, extremes, spell, converted=converted, logical=logical)


def _decimal(arrow: pa.Decimal128Type) -> Column:
    logical = struct({5: struct({1: i32(arrow.scale), 2: i32(arrow.precision)})})
    if arrow.precision <= _SHORT_DIGITS:
        return _integers(INT32, lambda array: _low_words(array, np.int32), _DECIMAL, logical)
    if arrow.precision <= _LONG_DIGITS:
        return _integers(INT64, lambda array: _low_words(array, np.int64), _DECIMAL, logical)
    size = next(size for size in range(9, 17) if 10**arrow.precision <= 1 << (8 * size - 1))

    def taken(array: pa.Array) -> Numbers:
        return _fixed(array, np.uint64, 2)

    def values(words: Numbers, room: Room) -> int:
        used = len(words) // 2 * size
        kernels.big_endian(words, size, room(used + 8))
        return used

    return Column(FIXED, PLAIN, taken, values, _untold, _as_they_are, True, size, _DECIMAL, logical)


def _low_words(array: pa.Array, kind: Any) -> Numbers:
    out = np.empty(len(array), kind)
    kernels.low_words(_fixed(array, np.int64, 2), out)
    return out


def _untold(_: Numbers) -> None:
    """Nobody skips by it."""


def _as_they_are(low: bytes, high: bytes) -> tuple[bytes, bytes]:
    return low, high


def _fixed(array: pa.Array, kind: Any, words: int = 1) -> Numbers:
    """The numbers of an array as they lie in memory, `words` of them for each value."""
    return _memory(array.buffers()[1], kind, array.offset * words, len(array) * words)


def _memory(buffer: Any, kind: Any, first: int, count: int) -> Numbers:
    """Some of a buffer, valid as long as it is. Kernels take what may be written to, though they write nothing, and
    what lies at multiples of its size; not all of Arrow's memory does."""
    if not count:
        return np.empty(0, kind)
    size = np.dtype(kind).itemsize
    found = np.frombuffer((ctypes.c_char * (count * size)).from_address(buffer.address + first * size), kind)
    return found if found.flags.aligned else found.copy()


def _halves(array: pa.Array) -> Numbers:
    return _fixed(array, np.int32)


def _words(array: pa.Array) -> Numbers:
    return _fixed(array, np.int64)


def _floats(physical: int, kind: Any, spelled: str) -> Column:
    def taken(array: pa.Array) -> Numbers:
        return _fixed(array, kind)

    def values(found: Numbers, room: Room) -> int:
        room(found.nbytes)[: found.nbytes] = found.view(np.uint8)
        return found.nbytes

    def extremes(found: Numbers) -> tuple[float, float] | None:
        """None where one is not a number."""
        low, high, numbers = kernels.float_extremes(found)
        return (float(low), float(high)) if numbers else None

    def spell(low: float, high: float) -> tuple[bytes, bytes]:
        """Zeros of both signs are equal, and a reader may look for either."""
        return pack(spelled, low or -0.0), pack(spelled, high or 0.0)

    return Column(physical, PLAIN, taken, values, extremes, spell, compressible=True)


def _itself(array: pa.Array) -> pa.Array:
    return array


def _booleans(array: pa.Array, room: Room) -> int:
    found = bits(array.buffers()[1], array.offset, len(array))
    room(len(found))[: len(found)] = found
    return len(found)


def bits(buffer: Any, offset: int, count: int) -> Bytes:
    """Of an Arrow bitmap, from the first on; those behind the last are 0."""
    if not count:
        return np.empty(0, np.uint8)
    some = _memory(buffer, np.uint8, offset // 8, (offset + count + 7) // 8 - offset // 8)
    return np.packbits(np.unpackbits(some, bitorder="little")[offset % 8 :][:count], bitorder="little")


def _boolean_extremes(array: pa.Array) -> tuple[bytes, bytes]:
    return bytes([array.true_count == len(array)]), bytes([array.true_count > 0])


def _texts(found: Texts, room: Room) -> int:
    bounds, data = found
    out = room(kernels.texts_room(len(bounds) - 1, int(bounds[-1]) - int(bounds[0])))
    return int(kernels.plain_texts(bounds, data, out))


def _text_extremes(found: Texts) -> tuple[bytes, bytes] | None:
    """None where one is too long to be told."""
    bounds, data = found
    low, high = (data[bounds[which] : bounds[which + 1]] for which in kernels.text_extremes(bounds, data))
    return (low.tobytes(), high.tobytes()) if max(len(low), len(high)) <= _LONGEST else None


def _bounds(array: pa.Array) -> Texts:
    """Where the texts begin and end in their bytes."""
    _, bounds, data = array.buffers()
    if not len(array):
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    found = _memory(bounds, np.int32, array.offset, len(array) + 1)
    return found, _memory(data, np.uint8, 0, int(found[-1]))


def _integer(width: int) -> Value:
    return struct({10: struct({1: i8(width), 2: boolean(True)})})


def _micros(*, utc: bool) -> Value:
    return struct({8: struct({1: boolean(utc), 2: struct({2: struct({})})})})


_TEXT = struct({1: struct({})})
_COLUMNS: dict[pa.DataType, Column] = {
    pa.int16(): _integers(INT32, lambda array: _fixed(array, np.int16).astype(np.int32), _INT_16, _integer(16)),
    pa.int32(): _integers(INT32, _halves, None, _integer(32)),
    pa.int64(): _integers(INT64, _words, None, _integer(64)),
    pa.date32(): _integers(INT32, _halves, _DATE, struct({6: struct({})})),
    pa.timestamp("us"): _integers(INT64, _words, None, _micros(utc=False)),
    pa.timestamp("us", tz="UTC"): _integers(INT64, _words, _MICROS, _micros(utc=True)),
    pa.float32(): _floats(FLOAT, np.float32, "<f"),
    pa.float64(): _floats(DOUBLE, np.float64, "<d"),
    pa.bool_(): Column(BOOLEAN, PLAIN, _itself, _booleans, _boolean_extremes, _as_they_are),
    pa.string(): Column(
        BYTE_ARRAY,
        PLAIN,
        _bounds,
        _texts,
        _text_extremes,
        _as_they_are,
        compressible=True,
        converted=_UTF8,
        logical=_TEXT,
    ),
    pa.binary(): Column(BYTE_ARRAY, PLAIN, _bounds, _texts, _text_extremes, _as_they_are, compressible=True),
}
