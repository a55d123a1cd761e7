"""An Arrow list array from the bounds that a kernel found and the elements that another one decodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.capture.fields import Fields, ValueRefused
from penstock.capture.kernels import arrays


def list_array(
    fields: Fields, arrow: pa.DataType, bounds: npt.NDArray[np.int32], decode: Callable[[], pa.Array]
) -> pa.Array:
    """A value that an element refuses is refused for its row."""
    try:
        elements = decode()
    except ValueRefused as refused:
        row = int(np.searchsorted(bounds, refused.row, side="right")) - 1
        value = f"an array with the element {refused.value}"
        raise ValueRefused(row, value, fits_text=refused.fits_text) from None
    return pa.Array.from_buffers(arrow, len(fields), [fields.valid_bits(), pa.py_buffer(bounds)], children=[elements])


def refuse_array(row: int, code: int, shown: str) -> ValueRefused:
    if code == arrays.NO_LIST:
        return ValueRefused(row, f"{shown}, an array of several dimensions or one that does not begin at 1")
    return ValueRefused(row, f"{shown}, which is no array", fits_text=False)
