"""A qualified query becomes algebra: FROM is a join, WHERE a filter, GROUP BY an aggregate under a projection.

A CTE is lowered once; each of its uses is a projection that renames its columns, so what it remembers is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.relation.types import PgType
from penstock.views.aggregates import Remembered, calls_in, is_aggregate, remember, taken_apart
from penstock.views.algebra import Filter, Join, Node, Project, Relation, Scan, UnionAll
from penstock.views.expr import BOOL, Col, Expr, Lit, conjuncts, kind
from penstock.views.expressions import HANDLERS
from penstock.views.expressions.binder import Binder, described, refused
from penstock.views.expressions.casts import cast_to
from penstock.views.expressions.comparison import check_comparable
from penstock.views.expressions.convert import common, fix, typed
from penstock.views.typer import Typer, twin

_GROUPED = "_grouped"


@dataclass(frozen=True)
class Lowered:
    """A node and its result columns: what SQL calls them, and the column of the tree."""

    node: Node
    columns: tuple[tuple[str, Col], ...]


@dataclass(frozen=True)
class Scope:
    """What a SELECT sees in FROM, by alias."""

    sources: Mapping[str, Lowered]

    @property
    def columns(self) -> dict[tuple[str, str], Expr]:
        return {(alias, name): col for alias, source in self.sources.items() for name, col in source.columns}

    def twins(self) -> list[exp.Subquery]:
        return [twin(alias, [(n, c.pg) for n, c in source.columns]) for alias, source in self.sources.items()]


class Lowering:
    def __init__(self, relations: Mapping[str, Relation], typer: Typer) -> None:
        self._relations = relations
        self._typer = typer
        self._taken: set[str] = set()

    def query(self, tree: exp.Expr, visible: Mapping[str, Lowered] | None = None) -> Lowered:
        ctes = dict(visible or {})
        for cte in _ctes(tree):
            lowered = self.query(cte.this, ctes)
            ctes[cte.alias] = _renamed(lowered, [part.name for part in cte.args["alias"].columns])
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, ctes)
        if isinstance(tree, exp.Union):
            return self._union(tree, ctes)
        if isinstance(tree, exp.Select):
            return self._select(tree, ctes)
        raise refused(tree)

    # FROM -------------------------------------------------------------------------------------------------------------

    def _source(self, tree: exp.Expr, ctes: Mapping[str, Lowered]) -> Lowered:
        alias = tree.alias
        if isinstance(tree, exp.Subquery):
            lowered = self.query(tree.this, ctes)
            return _renamed(lowered, [part.name for part in tree.args["alias"].columns])
        if isinstance(tree, exp.Table) and tree.name in ctes:
            return self._use(ctes[tree.name], alias)
        if isinstance(tree, exp.Table) and tree.name in self._relations:
            return self._scan(self._relations[tree.name], alias)
        raise refused(tree)

    def _scan(self, relation: Relation, alias: str) -> Lowered:
        columns = [replace(column, pg=column.computed) for column in relation.schema.columns]
        named = tuple((self._name(alias, column.name), column) for column in columns)
        node = Scan(relation, named, alias)
        return Lowered(node, tuple((c.name, Col(n, c.pg, c.spark, c.nullable)) for n, c in named))

    def _use(self, cte: Lowered, alias: str) -> Lowered:
        fresh = [(name, self._name(alias, name), col) for name, col in cte.columns]
        node = Project(cte.node, tuple((new, col) for _, new, col in fresh))
        return Lowered(node, tuple((name, Col(new, c.pg, c.spark, c.nullable)) for name, new, c in fresh))

    def _name(self, *parts: str) -> str:
        """A name no other column of the tree has."""
        base = name = "_".join(part for part in parts if part) or "c"
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    # SELECT -----------------------------------------------------------------------------------------------------------

    def _select(self, tree: exp.Select, ctes: Mapping[str, Lowered]) -> Lowered:
        joins = tree.args.get("joins") or []
        sources = [tree.args["from_"].this, *(join.this for join in joins)]
        scope = Scope({source.alias: self._source(source, ctes) for source in sources})
        conditions = [join.args["on"] for join in joins if join.args.get("on") is not None]
        where = tree.args.get("where")
        if where is not None:
            conditions.append(where.this)
        binder = self._binder(scope.columns, scope.twins(), conditions)
        predicates = [part for condition in conditions for part in conjuncts(fix(binder.bind(condition), BOOL))]
        inputs = tuple(source.node for source in scope.sources.values())
        node: Node = Join(inputs, ()) if len(inputs) > 1 else inputs[0]
        if predicates:
            node = Filter(node, tuple(predicates))
        if tree.args.get("group") or any(is_aggregate(e) for e in _expressions(tree)):
            return self._grouped(tree, scope, node)
        items = tree.expressions
        binder = self._binder(scope.columns, scope.twins(), items)
        return self._projected(items, binder, node)

    def _grouped(self, tree: exp.Select, scope: Scope, node: Node) -> Lowered:
        group = tree.args.get("group")
        keys = list(dict.fromkeys(_unparen(key) for key in (group.expressions if group else [])))
        nodes = list(dict.fromkeys(found for e in _expressions(tree) for found in calls_in(e)))
        calls = [taken_apart(node) for node in nodes]
        binder = self._binder(scope.columns, scope.twins(), [*keys, *(root for call in calls for root in call.roots)])
        call_types = self._describe(nodes, scope.twins())
        bound_keys = []
        for key in keys:
            bound = _settled(binder.bind(key))
            check_comparable("GROUP BY", (bound,), ordered=False)
            bound_keys.append((self._name("", key.name if isinstance(key, exp.Column) else "key"), bound))
        remembered: Remembered = remember(
            node, tuple(bound_keys), [(call, binder, call_types[call.node]) for call in calls], self._name
        )
        stands = {
            **{key: Col(name, e.pg, e.spark) for key, (name, e) in zip(keys, bound_keys, strict=True)},
            **dict(zip(nodes, remembered.results, strict=True)),
        }
        return self._above_groups(tree, remembered.node, stands)

    def _above_groups(self, tree: exp.Select, node: Node, stands: Mapping[exp.Expr, Expr]) -> Lowered:
        """HAVING and SELECT over a grouped input: keys and aggregates are columns there."""
        places = {found: f"c{i}" for i, found in enumerate(stands)}
        columns: dict[tuple[str, str], Expr] = {(_GROUPED, places[found]): e for found, e in stands.items()}
        stand_in = [twin(_GROUPED, [(places[found], e.pg) for found, e in stands.items()])]

        def replaced(tree: exp.Expr) -> exp.Expr:
            return tree.copy().transform(lambda n: exp.column(places[n], table=_GROUPED) if n in places else n)

        having = tree.args.get("having")
        if having is not None:
            condition = replaced(having.this)
            bound = fix(self._binder(columns, stand_in, [condition]).bind(condition), BOOL)
            node = Filter(node, conjuncts(bound))
        items = [replaced(item) for item in tree.expressions]
        return self._projected(items, self._binder(columns, stand_in, items), node)

    def _projected(self, items: Sequence[exp.Expr], binder: Binder, node: Node) -> Lowered:
        bound = [(item.alias_or_name, _settled(binder.bind(item.unalias()))) for item in items]
        named = [(name, self._name("", name), e) for name, e in bound]
        node = Project(node, tuple((new, e) for _, new, e in named))
        return Lowered(
            node,
            tuple((n, Col(new, e.pg, e.spark, e.nullable if isinstance(e, Col) else True)) for n, new, e in named),
        )

    # UNION ALL --------------------------------------------------------------------------------------------------------

    def _union(self, tree: exp.Union, ctes: Mapping[str, Lowered]) -> Lowered:
        sides = [self.query(side, ctes) for side in (tree.this, tree.expression)]
        types = self._union_types(sides)
        columns = []
        converted: list[list[Expr]] = [[], []]
        for place, pg in enumerate(types):
            name = sides[0].columns[place][0]
            pair = common([_to_type(side.columns[place][1], pg) for side in sides], "UNION ALL", pg)
            new = self._name("", name)
            columns.append((name, Col(new, pair[0].pg, pair[0].spark)))
            for side, expr in enumerate(pair):
                converted[side].append(expr)
        names = [col.name for _, col in columns]
        branches = [
            Project(side.node, tuple(zip(names, exprs, strict=True)))
            for side, exprs in zip(sides, converted, strict=True)
        ]
        return Lowered(UnionAll(tuple(branches)), tuple(columns))

    def _union_types(self, sides: Sequence[Lowered]) -> list[PgType]:
        twins = [twin("t", [(f"c{i}", col.pg) for i, (_, col) in enumerate(side.columns)]) for side in sides]
        both = " UNION ALL ".join(f"SELECT * FROM {found.sql(dialect='postgres')}" for found in twins)
        told = [column.pg for column in self._typer.describe(both)]
        first, second = (side.columns for side in sides)
        # A type of the source that this server does not know (an enum) was stood in for by text.
        return [a.pg if a.pg == b.pg else pg for (_, a), (_, b), pg in zip(first, second, told, strict=True)]

    # types ------------------------------------------------------------------------------------------------------------

    def _binder(
        self, columns: Mapping[tuple[str, str], Expr], twins: list[exp.Subquery], roots: Sequence[exp.Expr]
    ) -> Binder:
        parts = list(dict.fromkeys(part for root in roots for part in described(root.unalias())))
        for part in parts:
            if type(part) not in HANDLERS:
                raise refused(part)
        return Binder(columns, self._describe(parts, twins), HANDLERS)

    def _describe(self, parts: Sequence[exp.Expr], twins: list[exp.Subquery]) -> dict[exp.Expr, PgType]:
        if not parts:
            return {}
        select = exp.Select(expressions=[exp.alias_(part.copy(), f"e{i}") for i, part in enumerate(parts)])
        select = select.from_(twins[0].copy())
        for other in twins[1:]:
            select = select.join(other.copy(), join_type="cross")
        found = self._typer.describe(select.sql(dialect="postgres"))
        return {part: column.pg for part, column in zip(parts, found, strict=True)}


def _ctes(tree: exp.Expr) -> list[exp.Expr]:
    found = tree.args.get("with_")
    return list(found.expressions) if found is not None else []


def _expressions(tree: exp.Select) -> Iterator[exp.Expr]:
    yield from tree.expressions
    if tree.args.get("having") is not None:
        yield tree.args["having"].this


def _unparen(node: exp.Expr) -> exp.Expr:
    return _unparen(node.this) if isinstance(node, exp.Paren) else node


def _settled(expr: Expr) -> Expr:
    """A bare literal that nothing gave a type is text."""
    return typed(expr, expr.pg) if isinstance(expr, Lit) and expr.bare else expr


def _to_type(expr: Expr, pg: PgType) -> Expr:
    if expr.pg == pg or kind(expr.pg) == kind(pg):
        return expr
    return cast_to(expr, pg)


def _renamed(lowered: Lowered, names: Sequence[str]) -> Lowered:
    """The columns under the names listed after an alias: AS t(a, b)."""
    columns = [(names[i] if i < len(names) else name, col) for i, (name, col) in enumerate(lowered.columns)]
    return Lowered(lowered.node, tuple(columns))
