"""Memory is used again when nobody reads what was in it, and not before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.capture import column_memory

LARGE = 5 << 20


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    column_memory.forget()
    yield
    column_memory.forget()


def address(memory: np.ndarray) -> int:
    return int(memory.ctypes.data)


def test_it_is_used_again() -> None:
    memory = column_memory.taken(LARGE)
    first = address(memory)
    del memory
    assert address(column_memory.taken(LARGE - 1000)) == first


def test_a_column_of_it_keeps_it() -> None:
    """A slice of a view of it, through Arrow: what nobody may write over."""
    memory = column_memory.taken(LARGE)
    memory[:] = 7
    first = address(memory)
    values = memory[1024 : 1024 + 80].view(np.int64)
    column = pa.Array.from_buffers(pa.int64(), 10, [None, pa.py_buffer(values)]).slice(2)
    expected = column.to_pylist()
    del memory, values
    other = column_memory.taken(LARGE)
    other[:] = 9
    assert address(other) != first
    assert column.to_pylist() == expected
    del column
    again = column_memory.taken(LARGE)
    assert address(again) == first


def test_what_does_not_fit_is_not_given() -> None:
    kept = len(column_memory.taken(LARGE).base or b"")
    assert len(column_memory.taken(4 * LARGE)) == 4 * LARGE > kept
    lent = column_memory.taken(LARGE)
    assert len(lent) == LARGE
    assert len(lent.base) < 4 * LARGE, "most of it would lie idle"


def test_little_is_kept_and_nothing_after_forget() -> None:
    many = [column_memory.taken(LARGE) for _ in range(20)]
    del many
    assert 0 < len(column_memory._free) < 10
    column_memory.forget()
    assert not column_memory._free


def test_what_comes_back_after_forget_is_not_kept() -> None:
    """A commit forgets while its last batch is still in somebody's hands, and then nothing may come for hours."""
    memory = column_memory.taken(LARGE)
    column_memory.forget()
    del memory
    assert not column_memory._free


def test_huge_pieces_are_not_kept() -> None:
    """They would stay behind those that fit, for one value of many megabytes long ago."""
    memory = column_memory.taken(200 << 20)
    assert len(memory) == 200 << 20
    del memory
    assert not column_memory._free
