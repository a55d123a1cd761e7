"""How kernels are compiled and kept, and the instructions that Numba has no word for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import numba as nb
from llvmlite import ir
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.extending import intrinsic

Function = Callable[..., Any]
_SOURCES = ("compiled.py", "capture/kernels/*.py", "parquet/*.py")  # all code that a kernel may consist of


def kernel(signature: Any, *, inline: bool = False, allocates: bool = False) -> Callable[[Function], Function]:
    """Compiled for the signature, or each of a list, when its module is imported; runs without the GIL.

    References to arrays are not counted, which is why it must not make one (Numba refuses that) unless it says that it
    `allocates`. Counting them at every call of another kernel took three quarters of a scan's time.
    """
    options: dict[str, Any] = {"nogil": True, "inline": "always" if inline else "never", "_nrt": allocates}

    def compiled(function: Function) -> Function:
        dispatcher: Any = nb.njit(**options)(function)
        dispatcher._cache = _KernelCache(function)  # type: ignore[no-untyped-call]
        for one in signature if isinstance(signature, list) else [signature]:
            dispatcher.compile(one)
        dispatcher.disable_compile()
        return cast("Function", dispatcher)

    return compiled


@cache
def sources_digest() -> str:
    """Of the text of all kernels."""
    here = Path(__file__).parent
    found = sorted(path for pattern in _SOURCES for path in here.glob(pattern))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in found)).hexdigest()[:12]


class _NamedBySources(CompileResultCacheImpl):
    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}.{sources_digest()}"  # type: ignore[no-untyped-call]


class _KernelCache(FunctionCache):
    """Machine code on the disk, found by the text of all kernels.

    Numba's own looks at the file of the function alone. A kernel consists of others as well, and of their constants: an
    upgrade that changed only those would go on with what was compiled before it, and give wrong rows.
    """

    _impl_class = _NamedBySources


def _fetch(typing_context: Any, address: Any) -> Any:
    """Have the bytes at an address brought near, without waiting for them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        flag, place = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [place, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place], kind)
        reading, kept, data = flag(0), flag(3), flag(1)
        builder.call(prefetch, [builder.inttoptr(arguments[0], place), reading, kept, data])
        return context.get_dummy_value()

    return types.none(types.int64), generate


def _put(typing_context: Any, address: Any, value: Any) -> Any:
    """Write an integer at an address that need not be a multiple of its size, the low byte first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, value = arguments
        builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.none(types.int64, value), generate


def _word(typing_context: Any, address: Any) -> Any:
    """The eight bytes at an address that need not be a multiple of eight, the low byte first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=1)

    return types.uint64(types.int64), generate


def _half(typing_context: Any, address: Any) -> Any:
    """The four bytes at an address that need not be a multiple of four, the low byte first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(32).as_pointer()), align=1)

    return types.uint32(types.int64), generate


def _reversed_bytes(typing_context: Any, value: Any) -> Any:
    """The bytes of an integer from the last to the first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return value(value), generate


def _width(typing_context: Any, value: Any) -> Any:
    """How many bits a word needs, 0 for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        return builder.sub(word(64), builder.ctlz(arguments[0], ir.IntType(1)(0)))

    return types.int64(types.uint64), generate


fetch: Any = intrinsic(_fetch)
put: Any = intrinsic(_put)
word: Any = intrinsic(_word)
half: Any = intrinsic(_half)
reversed_bytes: Any = intrinsic(_reversed_bytes)
width: Any = intrinsic(_width)
copy_memory: Any = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
SHORT = 32  # bytes that `copy_short` copies


@kernel("void(int64, int64)", inline=True)
def copy_short(to, source):  # type: ignore[no-untyped-def]
    """Always as many bytes, of which the caller needs fewer: a call of `copy_memory` takes longer than all of them."""
    put(to, word(source))
    put(to + 8, word(source + 8))
    put(to + 16, word(source + 16))
    put(to + 24, word(source + 24))
