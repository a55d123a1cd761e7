"""What a SELECT sees, and what it becomes: columns by the names SQL has for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.relation.types import PgType
from penstock.views.algebra import Constants, Join, Node, OuterJoin, optional
from penstock.views.expr import Col, Expr
from penstock.views.set_functions import Called
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


def joined(
    scope: Scope, sides: Sequence[str], on: Sequence[tuple[Expr, ...]], beside: Mapping[str, Beside | Called]
) -> tuple[Scope, Node]:
    """FROM from left to right; what an outer join may leave without a row becomes nullable."""
    if not scope.sources:
        return scope, Constants((), ((),))
    (first, found), *others = scope.sources.items()
    node, sources = found.node, {first: found}
    if first in beside:
        node = beside[first].beside(Constants((), ((),)), "", ())
    for (alias, source), side, conditions in zip(others, sides, on, strict=False):
        if side in ("RIGHT", "FULL"):
            sources = {name: may_be_missing(earlier) for name, earlier in sources.items()}
        sources[alias] = may_be_missing(source) if side in ("LEFT", "FULL") else source
        if alias in beside:
            node = beside[alias].beside(node, side, conditions)
        elif side:
            left, right = (source.node, node) if side == "RIGHT" else (node, source.node)
            node = OuterJoin(left, right, conditions, full=side == "FULL")
        else:
            node = Join((node, source.node), conditions)
    return Scope(sources), node
