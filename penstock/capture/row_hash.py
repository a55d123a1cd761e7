"""A 64-bit hash of chosen columns per row, of the values' own bits: equal rows have equal hashes, NULL equals NULL.

The bits count, not the comparison: 0.0 and -0.0 are different values here, and a NaN equals itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.capture.kernels.repeats import mix_bytes, mix_words

Hashes = npt.NDArray[np.uint64]
_NOTHING = np.empty(0, np.uint8)


def row_hashes(rows: pa.Table, columns: Sequence[str]) -> Hashes | None:
    """None if a column's type has no flat form (a list, a struct)."""
    hashes = np.zeros(rows.num_rows, np.uint64)
    for name in columns:
        if not is_flat(rows.schema.field(name).type):
            return None
        start = 0
        for chunk in filter(len, rows[name].chunks):
            _mix(chunk, hashes[start : start + len(chunk)])
            start += len(chunk)
    return hashes


def is_flat(arrow: pa.DataType) -> bool:
    return bool(
        pa.types.is_primitive(arrow)
        or pa.types.is_decimal(arrow)
        or pa.types.is_string(arrow)
        or pa.types.is_binary(arrow)
    )


def bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floating-point values as the integers with the same bits, everything else as it is."""
    if pa.types.is_floating(column.type):
        integer = pa.int64() if column.type.bit_width == 64 else pa.int32()
        return pa.chunked_array([chunk.view(integer) for chunk in column.chunks], integer)
    return column


def _mix(array: pa.Array, hashes: Hashes) -> None:
    if pa.types.is_boolean(array.type):
        array = pc.cast(array, pa.uint8())
    valid, *buffers = array.buffers()
    bitmap = _NOTHING if valid is None else np.frombuffer(valid, np.uint8)
    if len(buffers) == 2:
        bounds, data = buffers
        ends = np.frombuffer(bounds, np.int32)[array.offset : array.offset + len(array) + 1]
        raw = _NOTHING if data is None else np.frombuffer(data, np.uint8)
        mix_bytes(raw, np.ascontiguousarray(ends, np.int64), bitmap, array.offset, hashes)
        return
    for words in _words(array, buffers[0]):
        mix_words(words, bitmap, array.offset, hashes)


def _words(array: pa.Array, data: pa.Buffer) -> list[Hashes]:
    width = array.type.bit_width // 8
    if width > 8:
        pairs = np.frombuffer(data, np.uint64).reshape(-1, width // 8)[array.offset : array.offset + len(array)]
        return [pairs[:, half] for half in range(width // 8)]
    values = np.frombuffer(data, f"u{width}")[array.offset : array.offset + len(array)]
    return [values.astype(np.uint64, copy=False)]
