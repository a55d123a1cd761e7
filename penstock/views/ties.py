"""What a join's conditions ask of the left side alone, of the right alone, and of both: equal values, or more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import UnsupportedQuery
from penstock.views.algebra import Filter, Join, Node, outputs
from penstock.views.expr import BOOL, Call, Col, Expr, call, names
from penstock.views.keys import keys_of


@dataclass(frozen=True)
class Pair:
    """left = right, or `<=>`, where NULL equals NULL."""

    left: Expr
    right: Expr
    sign: str

    def condition(self, right: Expr) -> Expr:
        """The same of another right side."""
        return call("compare", self.left, right, pg=BOOL, detail=self.sign)


@dataclass(frozen=True)
class Ties:
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    equal: tuple[Pair, ...]
    more: tuple[Expr, ...]


def ties(on: Sequence[Expr], left: Node, right: Node) -> Ties:
    """The conditions sorted; one over no column at all is asked of the left."""
    mine, theirs = ({col.name for col in outputs(node)} for node in (left, right))
    found = Ties((), (), (), ())
    for condition in on:
        read = names(condition)
        if read <= mine:
            found = Ties((*found.left, condition), found.right, found.equal, found.more)
        elif read <= theirs:
            found = Ties(found.left, (*found.right, condition), found.equal, found.more)
        elif not read <= mine | theirs:
            raise UnsupportedQuery(
                "a subquery that reads a table from two levels further out is not supported in a view",
                hint="Join that table inside the subquery.",
            )
        elif (pair := _pair(condition, mine, theirs)) is not None:
            found = Ties(found.left, found.right, (*found.equal, pair), found.more)
        else:
            found = Ties(found.left, found.right, found.equal, (*found.more, condition))
    return found


def _pair(condition: Expr, mine: set[str], theirs: set[str]) -> Pair | None:
    if isinstance(condition, Call) and condition.op == "compare" and condition.detail in ("=", "<=>"):
        for one, other in (condition.args, condition.args[::-1]):
            if names(one) and names(one) <= mine and names(other) and names(other) <= theirs:
                return Pair(one, other, condition.detail)
    return None


def at_most_one(right: Node, equal: Sequence[Pair]) -> bool:
    """True where the equal values hold a whole key of `right`, so that a row of the left meets at most one row."""
    columns = {pair.right.name for pair in equal if isinstance(pair.right, Col)}
    return any(key <= columns for key in keys_of(right))


def filtered(node: Node, predicates: tuple[Expr, ...]) -> Node:
    return Filter(node, predicates) if predicates else node


def joined(left: Node, right: Node, on: Sequence[Expr]) -> Join:
    """One join of everything that `left` joins already and `right`, so that its change may start anywhere."""
    below, more = (left.input, left.predicates) if isinstance(left, Filter) else (left, ())
    if isinstance(below, Join):
        return Join((*below.inputs, right), (*below.on, *more, *on))
    return Join((left, right), tuple(on))
