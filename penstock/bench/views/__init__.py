"""What views cost: TPC-H kept fresh by differences against computed anew, and the time from SQL text to a plan."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from penstock.bench.figure import Figure
from penstock.bench.views import plan, tpch

PARTS: dict[str, Callable[[Console], list[Figure]]] = {
    "plan": plan.run,
    "tpch": tpch.run,
}
