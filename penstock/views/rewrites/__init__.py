"""The passes that bring a view's tree to the form the rules expect, in order. One pass a file; each keeps the rows."""

from __future__ import annotations

from collections.abc import Callable

from penstock.views.algebra import Node
from penstock.views.rewrites.common_conditions import common_conditions
from penstock.views.rewrites.distinct_aggregates import distinct_aggregates
from penstock.views.rewrites.flatten_joins import flatten_joins
from penstock.views.rewrites.merged_columns import merged_columns
from penstock.views.rewrites.prune_columns import prune_columns
from penstock.views.rewrites.pull_projects import pull_projects
from penstock.views.rewrites.push_filters import push_filters

PASSES: tuple[Callable[[Node], Node], ...] = (
    pull_projects,
    flatten_joins,
    merged_columns,
    common_conditions,
    push_filters,
    pull_projects,
    flatten_joins,
    push_filters,
    distinct_aggregates,
    prune_columns,
)


def rewrite(node: Node) -> Node:
    for each in PASSES:
        node = each(node)
    return node
