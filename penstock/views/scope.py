"""What a SELECT sees, and what it becomes: columns by the names SQL has for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views.algebra import Constants, Join, Node, OuterJoin, optional, outputs
from penstock.views.expr import Col, Expr
from penstock.views.set_functions import Called, Recorded
from penstock.views.subqueries import SUBQUERIES, Beside
from penstock.views.typer import twin
from penstock.views.windows import parts


@dataclass(frozen=True)
class Lowered:
    """A node and its result columns: what SQL calls them, and the column of the tree."""

    node: Node
    columns: tuple[tuple[str, Col], ...]


@dataclass(frozen=True)
class Scope:
    """What a SELECT sees: the columns of FROM by alias, others by (table, name), and the answers of its subqueries."""

    sources: Mapping[str, Lowered]
    others: Mapping[tuple[str, str], Expr] = field(default_factory=dict)
    answers: Mapping[str, Expr] = field(default_factory=dict)

    @property
    def columns(self) -> dict[tuple[str, str], Expr]:
        given = {(alias, name): col for alias, source in self.sources.items() for name, col in source.columns}
        return {**given, **self.others, **{(SUBQUERIES, place): answer for place, answer in self.answers.items()}}

    def twins(self) -> list[exp.Subquery]:
        tables: dict[str, list[tuple[str, PgType]]] = {}
        for (table, name), expr in self.columns.items():
            tables.setdefault(table, []).append((name, expr.pg))
        return [twin(alias, columns) for alias, columns in tables.items()]


@dataclass(frozen=True)
class Grouping:
    """The parts of a grouped SELECT, without its subqueries."""

    items: Sequence[exp.Expr]
    having: exp.Expr | None
    sets: Sequence[Sequence[exp.Expr]]
    windows: Mapping[str, exp.Expr]

    @property
    def keys(self) -> list[exp.Expr]:
        return list(dict.fromkeys(key for each in self.sets for key in each))

    @property
    def expressions(self) -> list[exp.Expr]:
        inside = [part for window in self.windows.values() for part in parts(window)]
        return [*self.items, *([self.having] if self.having is not None else []), *inside]


def renamed(lowered: Lowered, names: Sequence[str]) -> Lowered:
    """The columns under the names listed after an alias: AS t(a, b)."""
    columns = [(names[i] if i < len(names) else name, col) for i, (name, col) in enumerate(lowered.columns)]
    return Lowered(lowered.node, tuple(columns))


def may_be_missing(lowered: Lowered) -> Lowered:
    columns = optional(col for _, col in lowered.columns)
    return replace(lowered, columns=tuple((name, col) for (name, _), col in zip(lowered.columns, columns, strict=True)))


Operations = Sequence[tuple[str, tuple[Expr, ...]]]  # sides and conditions


@dataclass(frozen=True)
class _Part:
    """A table, or tables that are joined already; `call` is what has no rows without those left of it."""

    sources: Mapping[str, Lowered]
    node: Node
    call: Beside | Called | Recorded | None = None

    def alone(self) -> _Part:
        """With nothing left of it."""
        if self.call is None:
            return self
        self._check(set())
        return _Part(self.sources, self.call.beside(Constants((), ((),)), "", ()))

    def join(self, right: _Part, side: str, on: tuple[Expr, ...]) -> _Part:
        """What an outer join may leave without a row becomes nullable."""
        mine = _missing(self.sources) if side in ("RIGHT", "FULL") else self.sources
        theirs = _missing(right.sources) if side in ("LEFT", "FULL") else right.sources
        sources = {**mine, **theirs}
        if right.call is not None:
            right._check({col.name for col in outputs(self.node)})
            return _Part(sources, right.call.beside(self.node, side, on))
        if not side:
            return _Part(sources, Join((self.node, right.node), on))
        first, second = (right.node, self.node) if side == "RIGHT" else (self.node, right.node)
        return _Part(sources, OuterJoin(first, second, on, full=side == "FULL"))

    def _check(self, known: set[str]) -> None:
        if self.call is not None and not self.call.reads() <= known:
            raise UnsupportedQuery(
                "LATERAL or a function within parentheses that reads a table outside is not supported in a view",
                hint="Put it behind the parentheses.",
            )


def _missing(sources: Mapping[str, Lowered]) -> dict[str, Lowered]:
    return {name: may_be_missing(found) for name, found in sources.items()}


def joined(
    scope: Scope, operations: Sequence[Operations], beside: Mapping[str, Beside | Called | Recorded]
) -> tuple[Scope, Node]:
    """FROM from left to right: each table, and then the joins that are made once it is there."""
    if not scope.sources:
        return scope, Constants((), ((),))
    stack: list[_Part] = []
    for (alias, source), made in zip(scope.sources.items(), ((), *operations), strict=False):
        stack.append(_Part({alias: source}, source.node, beside.get(alias)))
        for side, on in made:
            right, left = stack.pop(), stack.pop().alone()
            stack.append(left.join(right, side, on))
    (whole,) = stack
    whole = whole.alone()
    return Scope(whole.sources), whole.node
