"""What was asked for on the command line, or in the environment: the scales of TPC-H, and the minutes for all of it."""

from __future__ import annotations

import os
import time

from penstock.bench.scale import scale
from penstock.bench.tpch.queries import QUERIES as ALL
from penstock.errors import ConfigError

SCALES, MINUTES, QUERIES = "PENSTOCK_BENCH_TPCH", "PENSTOCK_BENCH_MINUTES", "PENSTOCK_BENCH_QUERIES"
SMALLEST = 0.01  # below, tpchgen-cli gives keys of partsupp twice


def scales() -> list[float]:
    """0.1 and 1 by default; a trial (`--scale`) is one small scale."""
    text = os.environ.get(SCALES) or (f"{max(SMALLEST, scale() / 10):g}" if scale() < 1 else "0.1,1")
    try:
        found = sorted(float(part) for part in text.split(","))
    except ValueError:
        found = [0.0]
    if found[0] < SMALLEST:
        raise ConfigError(
            f"TPC-H cannot be made at scale {text!r}", hint=f"Numbers from {SMALLEST:g} on, for example 0.1,1."
        )
    return found


def queries() -> list[str]:
    """All 22, unless some are named."""
    text = os.environ.get(QUERIES)
    found = list(ALL) if not text else [part.strip() for part in text.split(",")]
    if unknown := [name for name in found if name not in ALL]:
        raise ConfigError(f"TPC-H has no query {unknown[0]!r}", hint=f"Choose from: {', '.join(ALL)}.")
    return found


class Budget:
    """Time that is left; what does not fit any more is named, not measured."""

    def __init__(self) -> None:
        text = os.environ.get(MINUTES) or "30"
        try:
            self.minutes = float(text)
        except ValueError:
            self.minutes = 0.0
        if not self.minutes > 0:
            raise ConfigError(f"{text!r} is no number of minutes", hint="A number above 0, for example 30.")
        self._end = time.monotonic() + 60 * self.minutes

    @property
    def left(self) -> float:
        """Seconds; below 0 when it is over."""
        return self._end - time.monotonic()
