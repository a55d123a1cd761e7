"""Aggregate functions: a file per family, with what a group remembers for each and how the result is read from that.

What is remembered is either linear (see `linear.py`) or computed from the rows of a group whenever it changes. Results
come from what is remembered by one expression, so a retraction equals what was emitted, bit for bit.
"""

from __future__ import annotations

from penstock.relation.types import PgType
from penstock.views.aggregates import chosen, collected, linear, statistics
from penstock.views.aggregates.calls import AggregateCall, calls_in, is_aggregate, taken_apart
from penstock.views.aggregates.memory import Namer, Remembered, start
from penstock.views.algebra import Aggregate, Node
from penstock.views.expr import Expr
from penstock.views.expressions.binder import Binder, refused

FAMILIES = (linear, chosen, statistics, collected)

READERS = {name: reader for family in FAMILIES for name, reader in family.READERS.items()}
SPARK = {how: render for family in FAMILIES for how, render in family.SPARK.items()}
POSTGRES = {how: render for family in FAMILIES for how, render in family.POSTGRES.items()}

__all__ = ["AggregateCall", "Remembered", "calls_in", "is_aggregate", "remember", "taken_apart"]


def remember(
    node: Node,
    keys: tuple[tuple[str, Expr], ...],
    calls: list[tuple[AggregateCall, Binder, PgType]],
    name: Namer,
) -> Remembered:
    memory = start(name)
    results = []
    for call, binder, pg in calls:
        if call.function not in READERS:
            raise refused(call.node)
        results.append(READERS[call.function](memory, call.bound(binder, pg)))
    return Remembered(Aggregate(node, keys, tuple(memory.measures)), tuple(results))
