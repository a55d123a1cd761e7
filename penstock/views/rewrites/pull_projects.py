"""π moves up: σ(π(R)) = π(σ(R)), L ⋈ π(R) = π(L ⋈ R), γ(π(R)) = γ′(R), π(π′(R)) = π″(R).

What is left under joins and filters are scans, aggregates and unions, whose columns the expressions above then name.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.views.algebra import (
    Aggregate,
    Exists,
    Expand,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Window,
    optional,
    outputs,
)
from penstock.views.expr import Col, Expr, substitute
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
        case Exists(input=Project() as below) if not _clash([below.input, node.by]):
            stands = dict(below.items)
            on = tuple(substitute(p, stands) for p in node.on)
            return Project(replace(node, input=below.input, on=on), below.items)
        case Exists(by=Project() as below) if not _clash([node.input, below.input]):
            stands = dict(below.items)
            return replace(node, by=below.input, on=tuple(substitute(p, stands) for p in node.on))
        case Window(input=Project() as below):
            given = tuple((col.name, col) for col in outputs(node)[-len(node.functions) :])
            return Project(_over_renamed(node, below), (*below.items, *given))
        case Expand(input=Project() as below):
            stands = dict(below.items)
            args = tuple(substitute(arg, stands) for arg in node.args)
            given = tuple((col.name, col) for col in outputs(node)[-len(node.columns) :])
            return Project(replace(node, input=below.input, args=args), (*below.items, *given))
        case OuterJoin(full=False) if isinstance(node.left, Project) or _renames(node.right):
            return _above_outer_join(node)
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


def _over_renamed(node: Window, below: Project) -> Window:
    stands = dict(below.items)
    functions = tuple(
        replace(
            f,
            args=tuple(substitute(arg, stands) for arg in f.args),
            order=tuple(replace(one, expr=substitute(one.expr, stands)) for one in f.order),
        )
        for f in node.functions
    )
    return Window(below.input, tuple(substitute(e, stands) for e in node.partition), functions)


def _above_outer_join(node: OuterJoin) -> Node:
    """From the side that may be missing only names are taken: an expression over NULLs need not be NULL."""
    left, right = node.left, node.right
    bare = [left.input if isinstance(left, Project) else left, right.input if isinstance(right, Project) else right]
    if not _renames(right):
        bare[1] = right
    if _clash(bare):
        return node
    given = left.items if isinstance(left, Project) else tuple((col.name, col) for col in outputs(left))
    taken = right.items if isinstance(right, Project) and _renames(right) else _itself(right)
    on = tuple(substitute(p, dict([*given, *taken])) for p in node.on)
    maybe = tuple((name, col) for (name, _), col in zip(taken, optional(_columns(taken)), strict=True))
    return Project(OuterJoin(bare[0], bare[1], on), (*given, *maybe))


def _renames(node: Node) -> bool:
    return isinstance(node, Project) and all(isinstance(expr, Col) for _, expr in node.items)


def _itself(node: Node) -> tuple[tuple[str, Expr], ...]:
    return tuple((col.name, col) for col in outputs(node))


def _columns(items: tuple[tuple[str, Expr], ...]) -> list[Col]:
    return [expr for _, expr in items if isinstance(expr, Col)]


def _clash(nodes: list[Node]) -> bool:
    names = [col.name for node in nodes for col in outputs(node)]
    return len(names) != len(set(names))
