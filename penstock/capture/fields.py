"""One column's fields in a chunk: offsets and lengths into its bytes, before anything is made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.capture.kernels.gather import gather

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
TEXT, BINARY = ord("t"), ord("b")


class ValueRefused(Exception):
    """A value that its Arrow type cannot hold exactly: which row, and how the value reads."""

    def __init__(self, row: int, value: str) -> None:
        super().__init__(row, value)
        self.row = int(row)
        self.value = value


@dataclass(frozen=True)
class Fields:
    """A negative length is NULL or absent."""

    data: Bytes
    offsets: Ints
    lengths: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    def raw(self, row: int) -> bytes:
        start = int(self.offsets[row])
        return self.data[start : start + max(int(self.lengths[row]), 0)].tobytes()

    def text(self, row: int) -> str:
        return self.raw(row).decode(errors="replace")

    def valid_bits(self) -> pa.Buffer | None:
        """Arrow's validity bitmap."""
        present = self.lengths >= 0
        return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))

    def strings(self) -> pa.Array:
        bounds, data = gather(self.data, self.offsets, self.lengths)
        texts = self.variable(pa.string(), bounds, data)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:  # only a SQL_ASCII database can hold bytes that are not UTF-8
            bad = next(row for row in range(len(self)) if self.text(row).encode() != self.raw(row))
            raise ValueRefused(bad, repr(self.raw(bad))) from None
        return texts

    def variable(self, arrow: pa.DataType, bounds: npt.NDArray[np.int32], data: Bytes) -> pa.Array:
        """An Arrow string or binary array of gathered bytes."""
        buffers = [self.valid_bits(), pa.py_buffer(bounds), pa.py_buffer(data)]
        return pa.Array.from_buffers(arrow, len(self), buffers)

    def fixed(self, arrow: pa.DataType, values: np.ndarray) -> pa.Array:
        """An Arrow array of values of one width."""
        return pa.Array.from_buffers(arrow, len(self), [self.valid_bits(), pa.py_buffer(values)])
