"""CopyData messages out of libpq in bulk, without the GIL and without Python per message.

The functions are libpq's own, called on psycopg's connection, so TLS, SCRAM, service files and socket handling stay
libpq's. They are bound by symbol: numba cannot cache code that captured a ctypes address.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba as nb
from numba.core import types

from penstock.compiled import copy_memory, kernel
from penstock.errors import ConfigError

WOULD_BLOCK, DONE, FAILED, FULL = 0, -1, -2, -3
HELD_POINTER, HELD_LENGTH = 0, 1


def _libpq_path() -> str:
    """The libpq that psycopg itself has loaded: psycopg-binary carries one, otherwise the system's."""
    binary = importlib.util.find_spec("psycopg_binary")
    if binary is not None and binary.origin is not None:
        bundled = Path(binary.origin).parent.parent / "psycopg_binary.libs"
        for path in bundled.glob("libpq-*"):
            return str(path)
    system = ctypes.util.find_library("pq")
    if system is None:
        raise ConfigError("libpq was not found", hint="Install psycopg[binary], or the system's libpq.")
    return system


llvm.load_library_permanently(_libpq_path())
_get_copy_data: Any = types.ExternalFunction("PQgetCopyData", types.int32(types.intp, types.intp, types.int32))
_consume_input: Any = types.ExternalFunction("PQconsumeInput", types.int32(types.intp))
_free_memory: Any = types.ExternalFunction("PQfreemem", types.void(types.intp))


@kernel("Tuple((int64, int64, int64))(int64, uint8[::1], int64[::1], int64[::1])")
def fill(connection, buffer, ends, held):  # type: ignore[no-untyped-def]
    """Messages into `buffer`, never blocking: (messages, bytes, why it stopped).

    A message that does not fit stays in `held` (pointer, length) and comes first in the next call.
    """
    count, used, held_at, to = 0, 0, nb.int64(held.ctypes.data), nb.int64(buffer.ctypes.data)
    while count < ends.size:
        if held[HELD_POINTER] == 0:
            code = _get_copy_data(connection, held_at, 1)
            if code == 0:
                if _consume_input(connection) == 0 or _consume_input(connection) == 0:
                    return count, used, FAILED  # twice: the first may leave bytes inside the TLS layer
                code = _get_copy_data(connection, held_at, 1)
            if code <= 0:
                held[HELD_POINTER] = 0
                return count, used, code
            held[HELD_LENGTH] = code
        length = held[HELD_LENGTH]
        if used + length > buffer.size:
            return count, used, FULL
        copy_memory(to + used, held[HELD_POINTER], length)
        _free_memory(held[HELD_POINTER])
        held[HELD_POINTER] = 0
        used += length
        ends[count] = used
        count += 1
    return count, used, FULL


@nb.njit("void(int64[::1])", cache=True)
def release(held):  # type: ignore[no-untyped-def]
    """Free a message that was held over and will not be read."""
    if held[HELD_POINTER] != 0:
        _free_memory(held[HELD_POINTER])
        held[HELD_POINTER] = 0
