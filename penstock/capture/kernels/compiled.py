"""How a kernel that allocates nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


def kernel(signature: str | list[str], *, inline: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiled for the signature when its module is imported; runs without the GIL.

    References to arrays are not counted, which is why it must not make one (Numba refuses that). Counting them at every
    call of another kernel took three quarters of a scan's time.
    """
    options: dict[str, Any] = {"nogil": True, "cache": True, "inline": "always" if inline else "never", "_nrt": False}
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = nb.njit(signature, **options)
    return compiled


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


fetch: Any = intrinsic(_fetch)
