"""δ(R) = π(γ(R)): the distinct rows are the groups by all columns; how often each is there is what is remembered.

A row goes when its last copy goes and comes with its first; NULLs are equal, as for GROUP BY. Where the rows have a
key nothing is to be done and nothing remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.relation.schema import Column
from penstock.views.algebra import Aggregate, Measure, Node, Project, outputs
from penstock.views.expr import INT8, Expr
from penstock.views.keys import keys_of

ROWS = "_count"


def distinct(node: Node) -> Node:
    """Each row of `node` once."""
    if keys_of(node):
        return node
    own = tuple((col.name, col) for col in outputs(node))
    return Project(counted(node, own), own)


def counted(node: Node, keys: Sequence[tuple[str, Expr]], *measures: Measure) -> Aggregate:
    """The groups of `node` by `keys`, each with the number of its rows and what else is asked for."""
    return Aggregate(node, tuple(keys), (rows_of(keys[0][0]), *measures))


def rows_of(name: str) -> Measure:
    """The number of a group's rows, under a name made from `name`."""
    return Measure(f"{name}__rows", "rows", None, Column(ROWS, INT8, "bigint", nullable=False))
