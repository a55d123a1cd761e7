"""One column's fields in a chunk: offsets and lengths into its bytes, before anything is made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.capture.kernels.gather import gather, is_ascii

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
TEXT, BINARY = ord("t"), ord("b")


class ValueRefused(Exception):
    """A value that its column's form cannot hold exactly: which row, how the value reads, and whether a text could."""

    def __init__(self, row: int, value: str, *, fits_text: bool = True) -> None:
        super().__init__(row, value)
        self.row = int(row)
        self.value = value
        self.fits_text = fits_text


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
        if is_ascii(data):
            return texts
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:  # only a SQL_ASCII database can hold bytes that are not UTF-8
            bad = next(row for row in range(len(self)) if self.text(row).encode() != self.raw(row))
            raise ValueRefused(bad, repr(self.raw(bad)), fits_text=False) from None
        return texts

    def variable(self, arrow: pa.DataType, bounds: npt.NDArray[np.int32], data: Bytes) -> pa.Array:
        """An Arrow string or binary array of gathered bytes."""
        buffers = [self.valid_bits(), pa.py_buffer(bounds), pa.py_buffer(data)]
        return pa.Array.from_buffers(arrow, len(self), buffers)

    def part(self, at: int, width: int, whole: int) -> Fields:
        """The same bytes of every field; one that has not the whole length has them neither."""
        lengths = np.where(self.lengths == whole, width, np.where(self.lengths < 0, self.lengths, 0))
        return Fields(self.data, self.offsets + at, lengths)

    def struct(self, arrow: pa.DataType, children: list[pa.Array]) -> pa.Array:
        """An Arrow array of structs, a child for each of its fields."""
        return pa.Array.from_buffers(arrow, len(self), [self.valid_bits()], children=children)


@dataclass(frozen=True)
class Numbers:
    """One column's decoded values of a fixed width; 0 where NULL, which `valid` says, unless there is none."""

    values: npt.NDArray[np.integer]
    valid: pa.Buffer | None

    def array(self, arrow: pa.DataType) -> pa.Array:
        return pa.Array.from_buffers(arrow, len(self.values), [self.valid, pa.py_buffer(self.values)])


def limit_of(arrow: pa.Decimal128Type) -> tuple[np.uint64, np.uint64]:
    """10^precision, the high half and the low one."""
    limit = 10**arrow.precision
    return np.uint64(limit >> 64), np.uint64(limit & 0xFFFFFFFFFFFFFFFF)
