"""Lists and structs as values that can be hashed, which Arrow's own grouping cannot: equal codes are equal values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def flat(values: pa.Array) -> pa.Array:
    """An array of the same length without nesting, equal where the values are; NULL stays NULL.

    A list is the bytes of its elements' codes, a struct those of its fields'. Codes hold within one call only.

    >>> flat(pa.array([[1, None], [], None, [1, None], [1]])).dictionary_encode().indices.to_pylist()
    [0, 1, None, 0, 2]
    """
    if pa.types.is_list(values.type):
        elements = _codes(values.values)
        bounds = values.offsets.to_numpy().astype(np.int64) * elements.itemsize
        return _binary(values, bounds, elements.tobytes())
    if pa.types.is_struct(values.type):
        fields = np.stack([_codes(child) for child in values.flatten()], axis=1)
        bounds = np.arange(len(values) + 1, dtype=np.int64) * fields.shape[1] * fields.itemsize
        return _binary(values, bounds, np.ascontiguousarray(fields).tobytes())
    return values


def _codes(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    encoded = flat(values).dictionary_encode(null_encoding="encode")
    codes: np.ndarray[tuple[int], np.dtype[np.int32]] = encoded.indices.to_numpy(zero_copy_only=False)
    return codes.astype(np.int32)


def _binary(values: pa.Array, bounds: np.ndarray[tuple[int], np.dtype[np.int64]], data: bytes) -> pa.Array:
    present = np.packbits(values.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    buffers = [pa.py_buffer(present), pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
