"""π moves up: σ(π(R)) = π(σ(R)), L ⋈ π(R) = π(L ⋈ R), γ(π(R)) = γ′(R), π(π′(R)) = π″(R).

What is left under joins and filters are scans, aggregates and unions, whose columns the expressions above then name.
"""

from __future__ import annotations

from penstock.views.algebra import Aggregate, Filter, Join, Node, Project, outputs
from penstock.views.expr import Expr, substitute
from penstock.views.rewrites.tree import bottom_up


def pull_projects(node: Node) -> Node:
    return bottom_up(node, _pull)


def _pull(node: Node) -> Node:
    match node:
        case Project(input=Project() as below):
            stands = dict(below.items)
            return Project(below.input, tuple((name, substitute(e, stands)) for name, e in node.items))
        case Filter(input=Project() as below):
            stands = dict(below.items)
            return Project(Filter(below.input, tuple(substitute(p, stands) for p in node.predicates)), below.items)
        case Aggregate(input=Project() as below):
            stands = dict(below.items)
            return Aggregate(
                below.input,
                tuple((name, substitute(e, stands)) for name, e in node.keys),
                tuple(m.over(lambda e: substitute(e, stands)) for m in node.measures),
            )
        case Join() if any(isinstance(child, Project) for child in node.inputs):
            return _above_join(node)
        case _:
            return node


def _above_join(node: Join) -> Node:
    items: list[tuple[str, Expr]] = []
    bare: list[Node] = []
    for child in node.inputs:
        inner = child.items if isinstance(child, Project) else tuple((col.name, col) for col in outputs(child))
        items.extend(inner)
        bare.append(child.input if isinstance(child, Project) else child)
    if _clash(bare):  # one CTE used twice: its columns need the names the projections give them
        return node
    stands = dict(items)
    return Project(Join(tuple(bare), tuple(substitute(p, stands) for p in node.on)), tuple(items))


def _clash(nodes: list[Node]) -> bool:
    names = [col.name for node in nodes for col in outputs(node)]
    return len(names) != len(set(names))
