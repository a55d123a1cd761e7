"""Compiled loops of the data path. Every kernel has an explicit signature, so importing its module compiles it once
and numba's on-disk cache serves every later start; `compile_kernels()` is what `make setup` calls.
"""

from __future__ import annotations

from importlib import import_module

_MODULES = (
    "big_endian", "libpq", "frames", "gather", "binary", "decimals", "columns", "arrays", "intervals", "texts",
    "repeats", "hashes",
)  # fmt: skip


def compile_kernels() -> None:
    """Compile every kernel that numba's cache does not hold yet.

    The cache lies in `__pycache__` beside the sources, in the user's cache folder when that is read-only, or where
    `NUMBA_CACHE_DIR` says.
    """
    for name in (*(f"{__name__}.{own}" for own in _MODULES), "penstock.parquet.kernels"):
        import_module(name)
