"""`PENSTOCK_BENCH_SCALE=0.01`, or `--scale`: everything smaller, to see that it runs; its figures mean nothing."""

from __future__ import annotations

import os

from penstock.errors import ConfigError

VARIABLE = "PENSTOCK_BENCH_SCALE"


def scale() -> float:
    text = os.environ.get(VARIABLE, "1")
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise ConfigError(
            f"{VARIABLE} is {text!r}", hint="A number above 0 and up to 1, for example 0.01; 1 by default."
        )
    return number
