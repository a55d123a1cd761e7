"""How a kernel that allocates nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb


def kernel(signature: str | list[str], *, inline: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compiled for the signature when its module is imported; runs without the GIL.

    References to arrays are not counted, which is why it must not make one (Numba refuses that). Counting them at every
    call of another kernel took three quarters of a scan's time.
    """
    options: dict[str, Any] = {"nogil": True, "cache": True, "inline": "always" if inline else "never", "_nrt": False}
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = nb.njit(signature, **options)
    return compiled
