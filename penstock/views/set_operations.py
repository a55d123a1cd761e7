"""UNION, INTERSECT and EXCEPT are groups of both sides' rows that remember how many came from the left.

With l rows on the left and r on the right, a row of the result is there (l, r > 0) once or min(l, r) times for
INTERSECT [ALL], (l > 0 = r) once or max(0, l − r) times for EXCEPT [ALL]. NULLs are equal.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.relation.schema import Column
from penstock.views.algebra import Filter, Measure, Node, Project, UnionAll, Weigh, measured, outputs
from penstock.views.distinct import counted, distinct
from penstock.views.expr import BOOL, INT4, INT8, Col, Expr, call, lit

_SIDE = "__left"
Both = Callable[[Node, Node], Node]


def union(left: Node, right: Node) -> Node:
    return distinct(UnionAll((left, right)))


def intersect(left: Node, right: Node) -> Node:
    return _counted(left, right, lambda lefts, rights: (_above_0(lefts), _above_0(rights)))


def intersect_all(left: Node, right: Node) -> Node:
    return _repeated(left, right, lambda lefts, rights: call("least", lefts, rights, pg=INT8))


def except_(left: Node, right: Node) -> Node:
    none = lit(0, INT8)
    return _counted(left, right, lambda lefts, rights: (_above_0(lefts), _compare("=", rights, none)))


def except_all(left: Node, right: Node) -> Node:
    return _repeated(left, right, lambda lefts, rights: call("sub", lefts, rights, pg=INT8))


def _counted(left: Node, right: Node, keep: Callable[[Expr, Expr], tuple[Expr, ...]]) -> Node:
    groups, lefts, rights = _sides(left, right)
    return Project(Filter(groups, keep(lefts, rights)), _own(left))


def _repeated(left: Node, right: Node, times: Callable[[Expr, Expr], Expr]) -> Node:
    groups, lefts, rights = _sides(left, right)
    number = times(lefts, rights)
    return Project(Weigh(Filter(groups, (_above_0(number),)), number), _own(left))


def _sides(left: Node, right: Node) -> tuple[Node, Expr, Expr]:
    """The groups of both, the number of rows of the left in each, and that of the right."""
    side = f"{outputs(left)[0].name}{_SIDE}"
    both = UnionAll(tuple(Project(n, (*_own(n), (side, lit(is_left, INT4)))) for n, is_left in ((left, 1), (right, 0))))
    lefts = Measure(f"{side}s", "sum", Col(side, INT4, "int", False), Column("sum0", INT8, "bigint", nullable=False))
    groups = counted(both, _own(left), lefts)
    rows, own = measured(groups.measures[0]), measured(lefts)
    return groups, own, call("sub", rows, own, pg=INT8)


def _own(node: Node) -> tuple[tuple[str, Col], ...]:
    return tuple((col.name, col) for col in outputs(node))


def _above_0(number: Expr) -> Expr:
    return _compare(">", number, lit(0, INT8))


def _compare(sign: str, left: Expr, right: Expr) -> Expr:
    return call("compare", left, right, pg=BOOL, detail=sign)


OPERATIONS: dict[tuple[str, bool], Both] = {
    ("union", True): union,
    ("union", False): lambda left, right: UnionAll((left, right)),
    ("intersect", True): intersect,
    ("intersect", False): intersect_all,
    ("except", True): except_,
    ("except", False): except_all,
}
