"""CopyData messages out of libpq in bulk, without the GIL and without Python per message.

The functions are libpq's own, called on psycopg's connection, so TLS, SCRAM, service files and socket handling stay
libpq's. They are bound by symbol: numba cannot cache code that captured a ctypes address.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import select
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba as nb
import numpy as np
import numpy.typing as npt
from numba.core import types

from penstock.compiled import copy_memory, kernel
from penstock.errors import ConfigError

Ints = npt.NDArray[np.int64]
WOULD_BLOCK, DONE, FAILED, FULL = 0, -1, -2, -3
HELD_POINTER, HELD_LENGTH = 0, 1
_WAITS = 400  # two seconds at the most, with five milliseconds each: a caller may have been told to stop


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
_poll: Any = types.ExternalFunction("poll", types.int32(types.intp, types.uintp, types.int32))
_free_memory: Any = types.ExternalFunction("PQfreemem", types.void(types.intp))


def awaited(socket: int) -> Ints:
    """A struct pollfd that waits for something to read."""
    return np.array([socket, select.POLLIN], np.int32).view(np.int64)


@kernel("Tuple((int64, int64, int64))(int64, uint8[::1], int64[::1], int64[::1], int64[::1], int64, int32)")
def fill(connection, buffer, ends, held, socket, enough, patience):  # type: ignore[no-untyped-def]
    """Messages into `buffer`: (messages, bytes, why it stopped). The first is not waited for.

    Until there are `enough` bytes, more may take `patience` milliseconds, so and so often; `socket` is `awaited`. A
    message that does not fit stays in `held` (pointer, length) and comes first in the next call.
    """
    count, used, waits, held_at, to = 0, 0, 0, nb.int64(held.ctypes.data), nb.int64(buffer.ctypes.data)
    while count < ends.size:
        if held[HELD_POINTER] == 0:
            code = _get_copy_data(connection, held_at, 1)
            if code == 0:
                if _consume_input(connection) == 0 or _consume_input(connection) == 0:
                    return count, used, FAILED  # twice: the first may leave bytes inside the TLS layer
                code = _get_copy_data(connection, held_at, 1)
            if code == 0 and 0 < used < enough and waits < _WAITS:
                waits += 1
                if _poll(nb.int64(socket.ctypes.data), 1, patience) > 0:
                    continue
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


@kernel("void(int64[::1])")
def release(held):  # type: ignore[no-untyped-def]
    """Free a message that was held over and will not be read."""
    if held[HELD_POINTER] != 0:
        _free_memory(held[HELD_POINTER])
        held[HELD_POINTER] = 0
