"""`penstock bench`: the figures in docs/benchmarks.md, measured as ratios in one run on this machine."""

from __future__ import annotations

from penstock.bench.main import main

__all__ = ["main"]
