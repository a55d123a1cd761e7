"""A column nobody above reads is not read: scans, projections and union branches give only what is used."""

from __future__ import annotations

from dataclasses import replace

from penstock.views.algebra import (
    Aggregate,
    Constants,
    Exists,
    Expand,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    UnionAll,
    Weigh,
    Window,
    outputs,
)
from penstock.views.expr import names
from penstock.views.rewrites.tree import children, over


def prune_columns(node: Node) -> Node:
    return _prune(node, frozenset(col.name for col in outputs(node)))


def _prune(node: Node, used: frozenset[str]) -> Node:
    match node:
        case Scan():
            return replace(node, columns=tuple(pair for pair in node.columns if pair[0] in used))
        case Filter():
            read = used.union(*(names(p) for p in node.predicates))
            return over(node, (_prune(node.input, read),))
        case Constants():
            kept = [place for place, (name, _) in enumerate(node.columns) if name in used]
            rows = tuple(tuple(row[place] for place in kept) for row in node.rows)
            return Constants(tuple(node.columns[place] for place in kept), rows)
        case Weigh():
            return over(node, (_prune(node.input, used | names(node.times)),))
        case Project():
            items = tuple(item for item in node.items if item[0] in used)
            read = frozenset[str]().union(*(names(e) for _, e in items))
            return Project(_prune(node.input, read), items)
        case Window():
            return _prune_window(node, used)
        case Expand():
            return over(node, (_prune(node.input, used.union(*(names(arg) for arg in node.args))),))
        case Exists():
            read = frozenset[str]().union(*(names(p) for p in node.on))
            return over(node, (_prune(node.input, used | read), _prune(node.by, read)))
        case Join() | OuterJoin():
            read = used.union(*(names(p) for p in node.on))
            return over(node, tuple(_prune(child, read) for child in children(node)))
        case UnionAll():
            return over(node, tuple(_prune(_exactly(child, used), used) for child in node.inputs))
        case Aggregate():
            # Whatever is above: a CTE's uses then still share one aggregate, with all it remembers.
            read = frozenset[str]().union(*(names(e) for _, e in node.keys))
            read = read.union(*(names(expr) for m in node.measures for expr in m.exprs))
            return over(node, (_prune(node.input, read),))
        case _:
            return node


def _prune_window(node: Window, used: frozenset[str]) -> Node:
    functions = tuple(f for f in node.functions if f.name in used)
    if not functions:
        return _prune(node.input, used)
    read = used - {f.name for f in functions}
    for function in functions:
        read = read.union(*(names(arg) for arg in function.args), *(names(one.expr) for one in function.order))
    read = read.union(*(names(e) for e in node.partition))
    return Window(_prune(node.input, read), node.partition, functions)


def _exactly(branch: Node, used: frozenset[str]) -> Node:
    """Branches of a union must agree in their columns, so each is a projection on the used ones."""
    if isinstance(branch, Project):
        return branch
    return Project(branch, tuple((col.name, col) for col in outputs(branch) if col.name in used))
