"""How the columns of each Arrow type are written: their type in Parquet, their encoding, their values as bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
Arrays = Sequence[pa.Array]
Room = Callable[[int], Bytes]
Extremes = tuple[Any, Any]


@dataclass(frozen=True)
class Column:
    """`encode` writes arrays without NULLs, one behind the other, into room that it asks for: how many bytes it took
    and, if they shall be told, the least and the greatest value, where there are such. `spell` has those as bytes."""

    physical: int
    encoding: int
    encode: Callable[[Arrays, Room, bool], tuple[int, Extremes | None]]
    spell: Callable[[Any, Any], tuple[bytes, bytes]]
    compressible: bool = False
    size: int = 0
    converted: int | None = None
    logical: Value | None = None


def column_of(arrow: pa.DataType) -> Column | None:
    """None for types that are left to Arrow: nested ones, and those that no column of PostgreSQL becomes."""
    return _decimal(arrow) if pa.types.is_decimal128(arrow) else _COLUMNS.get(arrow)


def _integers(physical: int, step: int, converted: int | None, logical: Value) -> Column:
    """Those that lie `step` bytes apart, and fit into the type although there may be more of them."""
    narrow = physical == INT32
    both = Struct("<i" if narrow else "<q")

    def encode(arrays: Arrays, room: Room, told: bool) -> tuple[int, Extremes | None]:
        count = sum(map(len, arrays))
        places = [(array.buffers()[1].address + array.offset * step, len(array)) for array in arrays if len(array)]
        pieces = np.array(places or [(0, 0)], np.int64)
        block = np.empty(kernels.BLOCK, np.int64)
        used, low, high = kernels.pack(pieces, step, narrow, room(kernels.packed_room(count)), block)
        return int(used), (int(low), int(high)) if count else None

    def spell(low: int, high: int) -> tuple[bytes, bytes]:
        return both.pack(low), both.pack(high)

    return Column(physical, PACKED, encode, spell, converted=converted, logical=logical)


def _widened(column: Column, to: pa.DataType) -> Column:
    """For values of a type that Parquet has not."""

    def encode(arrays: Arrays, room: Room, told: bool) -> tuple[int, Extremes | None]:
        return column.encode([array.cast(to) for array in arrays], room, told)

    return replace(column, encode=encode)


def _decimal(arrow: pa.Decimal128Type) -> Column:
    logical = struct({5: struct({1: i32(arrow.scale), 2: i32(arrow.precision)})})
    if arrow.precision <= _LONG_DIGITS:
        return _integers(INT32 if arrow.precision <= _SHORT_DIGITS else INT64, 16, _DECIMAL, logical)
    size = next(size for size in range(9, 17) if 10**arrow.precision <= 1 << (8 * size - 1))

    def encode(arrays: Arrays, room: Room, told: bool) -> tuple[int, None]:
        """Without extremes: nobody skips by them."""
        out, used = room(sum(map(len, arrays)) * size + 8), 0
        for array in arrays:
            kernels.big_endian(_fixed(array, np.uint64, 2), size, out[used:])
            used += len(array) * size
        return used, None

    return Column(FIXED, PLAIN, encode, _as_they_are, True, size, _DECIMAL, logical)


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


def _floats(physical: int, kind: Any, spelled: str) -> Column:
    def encode(arrays: Arrays, room: Room, told: bool) -> tuple[int, Extremes | None]:
        """Without extremes where one is not a number."""
        found = [_fixed(array, kind) for array in arrays if len(array)]
        out, used = room(sum(one.nbytes for one in found)), 0
        for one in found:
            out[used : used + one.nbytes] = one.view(np.uint8)
            used += one.nbytes
        extremes = [kernels.float_extremes(one) for one in found] if told else []
        if not extremes or not all(numbers for _, _, numbers in extremes):
            return used, None
        return used, (min(low for low, _, _ in extremes), max(high for _, high, _ in extremes))

    def spell(low: float, high: float) -> tuple[bytes, bytes]:
        """Zeros of both signs are equal, and a reader may look for either."""
        return pack(spelled, low or -0.0), pack(spelled, high or 0.0)

    return Column(physical, PLAIN, encode, spell, compressible=True)


def _booleans(arrays: Arrays, room: Room, told: bool) -> tuple[int, Extremes | None]:
    array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    found = bits(array.buffers()[1], array.offset, len(array))
    room(len(found))[: len(found)] = found
    extremes = bytes([array.true_count == len(array)]), bytes([array.true_count > 0])
    return len(found), extremes if len(array) else None


def bits(buffer: Any, offset: int, count: int) -> Bytes:
    """Of an Arrow bitmap, from the first on; those behind the last are 0."""
    if not count:
        return np.empty(0, np.uint8)
    some = _memory(buffer, np.uint8, offset // 8, (offset + count + 7) // 8 - offset // 8)
    return np.packbits(np.unpackbits(some, bitorder="little")[offset % 8 :][:count], bitorder="little")


def _texts(arrays: Arrays, room: Room, told: bool) -> tuple[int, Extremes | None]:
    found = [_bounds(array) for array in arrays if len(array)]
    out, used = room(sum(kernels.texts_room(len(one) - 1, int(one[-1]) - int(one[0])) for one, _ in found)), 0
    for bounds, data in found:
        used += int(kernels.plain_texts(bounds, data, out[used:]))
    return used, _text_extremes(found) if told and found else None


def _text_extremes(found: Sequence[Texts]) -> Extremes | None:
    """None where one is too long to be told."""
    extremes = []
    for bounds, data in found:
        which = kernels.text_extremes(bounds, data)
        if max(int(bounds[one + 1]) - int(bounds[one]) for one in which) > _LONGEST:
            return None
        extremes.append([data[bounds[one] : bounds[one + 1]].tobytes() for one in which])
    return min(low for low, _ in extremes), max(high for _, high in extremes)


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
_INT32 = _integers(INT32, 4, None, _integer(32))
_COLUMNS: dict[pa.DataType, Column] = {
    pa.int16(): _widened(replace(_INT32, converted=_INT_16, logical=_integer(16)), pa.int32()),
    pa.int32(): _INT32,
    pa.int64(): _integers(INT64, 8, None, _integer(64)),
    pa.date32(): _integers(INT32, 4, _DATE, struct({6: struct({})})),
    pa.timestamp("us"): _integers(INT64, 8, None, _micros(utc=False)),
    pa.timestamp("us", tz="UTC"): _integers(INT64, 8, _MICROS, _micros(utc=True)),
    pa.float32(): _floats(FLOAT, np.float32, "<f"),
    pa.float64(): _floats(DOUBLE, np.float64, "<d"),
    pa.bool_(): Column(BOOLEAN, PLAIN, _booleans, _as_they_are),
    pa.string(): Column(BYTE_ARRAY, PLAIN, _texts, _as_they_are, True, converted=_UTF8, logical=_TEXT),
    pa.binary(): Column(BYTE_ARRAY, PLAIN, _texts, _as_they_are, True),
}
