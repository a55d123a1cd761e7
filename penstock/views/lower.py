"""A qualified query becomes algebra: FROM is a join, WHERE a filter, GROUP BY an aggregate under a projection.

A CTE is lowered once; each of its uses is a projection that renames its columns, so what it remembers is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.schema import Column
from penstock.relation.types import PgType
from penstock.views.aggregates import Remembered, calls_in, is_aggregate, remember, taken_apart
from penstock.views.algebra import (
    Aggregate,
    Constants,
    Filter,
    Node,
    Project,
    Relation,
    Scan,
    outputs,
)
from penstock.views.clauses import conditions, ctes_of, is_alone, meant, over_parts, side_of, unparen
from penstock.views.distinct import distinct
from penstock.views.expr import BOOL, Col, Expr, Lit, conjuncts, kind, names
from penstock.views.expressions import HANDLERS
from penstock.views.expressions.binder import Binder, described, refused
from penstock.views.expressions.casts import cast_to
from penstock.views.expressions.comparison import check_comparable
from penstock.views.expressions.convert import common, fix, typed
from penstock.views.first_rows import Limit, limit_of, limited
from penstock.views.functions_in_from import FunctionCall, call_of
from penstock.views.rewrites.grouping_sets import sets_of, spread
from penstock.views.scope import Grouping, Lowered, Scope, joined, renamed
from penstock.views.set_functions import Called, argument, called
from penstock.views.set_operations import OPERATIONS
from penstock.views.subqueries import (
    Beside,
    Body,
    Taken,
    attach,
    condition,
    grouped_by,
    has_subquery,
    is_subquery,
    tied_by,
)  # fmt: skip
from penstock.views.typer import Typer, twin
from penstock.views.windows import is_window, ordered_by, parts, windowed

_GROUPED = "_grouped"


class Lowering:
    def __init__(self, relations: Mapping[str, Relation], typer: Typer) -> None:
        self._relations = relations
        self._typer = typer
        self._taken: set[str] = set()

    def query(self, tree: exp.Expr, visible: Mapping[str, Lowered] | None = None) -> Lowered:
        ctes = dict(visible or {})
        for cte in ctes_of(tree):
            lowered = self.query(cte.this, ctes)
            ctes[cte.alias] = renamed(lowered, [part.name for part in cte.args["alias"].columns])
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this, ctes)
        if isinstance(tree, exp.Values):
            return self._values(tree, [f"column{n + 1}" for n in range(len(tree.expressions[0].expressions))])
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree, ctes)
        if isinstance(tree, exp.Select):
            return self._select(tree, ctes)
        raise refused(tree)

    # FROM -------------------------------------------------------------------------------------------------------------

    def _source(self, tree: exp.Expr, ctes: Mapping[str, Lowered]) -> Lowered:
        alias = tree.alias
        if isinstance(tree, exp.Subquery):
            lowered = self.query(tree.this, ctes)
            return renamed(lowered, [part.name for part in tree.args["alias"].columns])
        if isinstance(tree, exp.Values):
            named = [part.name for part in tree.args["alias"].columns]
            every = [f"column{n + 1}" for n in range(len(tree.expressions[0].expressions))]
            return self._values(tree, [*named, *every[len(named) :]])
        if isinstance(tree, exp.Table) and tree.name in ctes:
            return self._use(ctes[tree.name], alias)
        if isinstance(tree, exp.Table) and tree.name in self._relations:
            return self._scan(self._relations[tree.name], alias)
        raise refused(tree)

    def _sources(
        self, trees: Sequence[exp.Expr], ctes: Mapping[str, Lowered]
    ) -> tuple[Scope, dict[str, Beside | Called]]:
        """FROM by alias; a LATERAL subquery sees what is left of it."""
        sources: dict[str, Lowered] = {}
        beside: dict[str, Beside | Called] = {}
        for tree in trees:
            if (call := call_of(tree)) is not None:
                beside[call.alias], sources[call.alias] = self._called(call, Scope(sources))
                continue
            if not isinstance(tree, exp.Lateral):
                sources[tree.alias] = self._source(tree, ctes)
                continue
            body = self._subquery(Scope(sources), ctes, lateral=True)(tree.this)
            called = [part.name for part in tree.args["alias"].columns]
            named = [*called, *(name for name, _ in body.values[len(called) :])]
            made = [
                (name, self._name(tree.alias, name), value) for name, (_, value) in zip(named, body.values, strict=True)
            ]
            beside[tree.alias] = Beside(body, tuple((new, value) for _, new, value in made))
            sources[tree.alias] = Lowered(body.node, tuple((n, Col(new, e.pg, e.spark)) for n, new, e in made))
        return Scope(sources), beside

    def _called(self, call: FunctionCall, left: Scope) -> tuple[Called, Lowered]:
        """A function over what stands left of it."""
        binder = self._binder(left, call.args)
        written = ", ".join(arg.sql(dialect="postgres") for arg in call.args)
        number = " WITH ORDINALITY" if call.numbered else ""
        twins = [one.sql(dialect="postgres") for one in left.twins()]
        told = self._typer.describe(
            f"SELECT f.* FROM {' CROSS JOIN '.join([*twins, f'LATERAL {call.name}({written}){number} AS f'])}"
        )
        found = called(
            call.name,
            [argument(binder, arg) for arg in call.args],
            [one.pg for one in told],
            [self._name(call.alias, name) for name in call.columns],
            numbered=call.numbered,
        )
        return found, Lowered(Constants((), ((),)), tuple(zip(call.columns, found.seen(), strict=True)))

    def _scan(self, relation: Relation, alias: str) -> Lowered:
        columns = [replace(column, pg=column.computed) for column in relation.schema.columns]
        named = tuple((self._name(alias, column.name), column) for column in columns)
        node = Scan(relation, named, alias)
        return Lowered(node, tuple((c.name, Col(n, c.pg, c.spark, c.nullable)) for n, c in named))

    def _values(self, tree: exp.Values, called: Sequence[str]) -> Lowered:
        bare = exp.Values(expressions=[row.copy() for row in tree.expressions])
        told = self._typer.describe(bare.sql(dialect="postgres"))
        cells = [row.expressions for row in tree.expressions]
        binder = self._binder(Scope({}), [cell for row in cells for cell in row])
        by_column = [
            common([_to_type(fix(binder.bind(row[place]), one.pg), one.pg) for row in cells], "VALUES", one.pg)
            for place, one in enumerate(told)
        ]
        columns = [
            (name, Column(self._name("", name), one.pg, cells_of[0].spark))
            for name, one, cells_of in zip(called, told, by_column, strict=True)
        ]
        node = Constants(tuple((c.name, c) for _, c in columns), tuple(zip(*by_column, strict=True)))
        return Lowered(node, tuple((name, Col(c.name, c.pg, c.spark)) for name, c in columns))

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
        """A SELECT with DISTINCT, ORDER BY and LIMIT; what only these read are columns until then."""
        limit, once = limit_of(tree), tree.args.get("distinct")
        on = [meant(e, tree) for e in once.args["on"].expressions] if once and once.args.get("on") else []
        order = list(tree.args["order"].expressions) if tree.args.get("order") else []
        body = self._body(tree, ctes, None, [*on, *(meant(one.this, tree) for one in order)])
        given = self._projected(body.node, body.values)
        size = len(tree.expressions)
        own, more = given.columns[:size], [col for _, col in given.columns[size:]]
        node, result = given.node, replace(given, columns=own)
        if once and not on:
            own_values = [value for _, value in body.values[:size]]
            more = [own[own_values.index(value)][1] for _, value in body.values[size:]]
            check_comparable("DISTINCT", [col for _, col in own], ordered=False)
            node = distinct(Project(node, tuple((col.name, col) for _, col in own)))
        orders = [ordered_by(col, one) for col, one in zip(more[len(on) :], order, strict=True)]
        if on:
            check_comparable("DISTINCT ON", more[: len(on)], ordered=False)
            node = limited(node, more[: len(on)], orders, Limit(1), self._name)
        if limit is not None:
            node = limited(node, (), orders, limit, self._name)
        if on or limit is not None or more or once:
            node = Project(node, tuple((col.name, col) for _, col in own))
        return replace(result, node=node)

    def _projected(self, node: Node, values: Sequence[tuple[str, Expr]]) -> Lowered:
        named = [(name, self._name("", name), e) for name, e in values]
        return Lowered(
            Project(node, tuple((new, e) for _, new, e in named)),
            tuple((n, Col(new, e.pg, e.spark, e.nullable if isinstance(e, Col) else True)) for n, new, e in named),
        )

    def _body(
        self,
        tree: exp.Select,
        ctes: Mapping[str, Lowered],
        outer: Scope | None = None,
        more: Sequence[exp.Expr] = (),
    ) -> Body:
        """A SELECT and `more` expressions; its conditions on the columns of `outer`, the query around it, are what ties
        it to that."""
        scope, node, on = self._from(tree, ctes, outer)
        taken, windows = Taken(self._name, is_subquery), Taken(self._name, is_window)
        items = [windows.out_of(taken.out_of(item)) for item in (*tree.expressions, *more)]
        having = tree.args.get("having") and taken.out_of(tree.args["having"].this)
        group = tree.args.get("group")
        sets = [tuple(taken.out_of(key) for key in each) for each in sets_of(group)]
        if windows.found and on:
            raise UnsupportedQuery(
                "a window function in a subquery that reads the query around it is not supported in a view",
                hint="Put the window function into a subquery in FROM, partitioned by what ties it.",
            )
        grouping = Grouping(items, having, sets, {p: w for w, p in windows.found.items()})
        if group or any(is_aggregate(e) for e in grouping.expressions):
            first = [*grouping.keys, *(call for e in grouping.expressions for call in calls_in(e))]
            scope, node = self._attached(taken, first, scope, node, ctes, outer)
            rest = {
                place: found
                for place, found in taken.within(grouping.expressions).items()
                if place not in scope.answers
            }
            return self._grouped(grouping, scope, node, on, rest, ctes, outer)
        scope, node = self._attached(taken, [*items, *windows.found], scope, node, ctes, outer)
        scope, node = self._windowed(grouping.windows, scope, node)
        binder = self._binder(scope, items, outer)
        return Body(node, _values(items, binder), on)

    def _windowed(self, windows: Mapping[str, exp.Expr], scope: Scope, node: Node) -> tuple[Scope, Node]:
        if not windows:
            return scope, node
        binder = self._binder(scope, [part for window in windows.values() for part in parts(window)])
        types = self._describe(list(windows.values()), scope.twins())
        node, answers = windowed(node, windows, lambda tree: _settled(binder.bind(tree)), types, self._name)
        return replace(scope, answers={**scope.answers, **answers}), node

    def _from(
        self, tree: exp.Select, ctes: Mapping[str, Lowered], outer: Scope | None
    ) -> tuple[Scope, Node, tuple[Expr, ...]]:
        """FROM and WHERE: what is in sight, the rows, and the conditions that need `outer`."""
        joins = tree.args.get("joins") or []
        first = [tree.args["from_"].this] if tree.args.get("from_") else []
        sources = [*first, *(join.this for join in joins)]
        scope, beside = self._sources(sources, ctes)
        where = tree.args.get("where")
        parts = list(conditions(where.this)) if where is not None else []
        plain, asking = [p for p in parts if not has_subquery(p)], [p for p in parts if has_subquery(p)]
        asked = [list(conditions(join.args["on"])) if join.args.get("on") is not None else [] for join in joins] + [
            plain
        ]
        binder = self._binder(scope, [part for each in asked for part in each], outer)
        bound = [tuple(c for part in each for c in conjuncts(fix(binder.bind(part), BOOL))) for each in asked]
        own = {col.name for source in scope.sources.values() for _, col in source.columns}
        outside = [tuple(p for p in each if not names(p) <= own) for each in bound]
        if any(side_of(join) and found for join, found in zip(joins, outside, strict=False)):
            raise UnsupportedQuery(
                "an outer join in a subquery may not be on columns of the query around it",
                hint="Put that condition into the subquery's WHERE.",
            )
        inside = [tuple(p for p in each if names(p) <= own) for each in bound]
        scope, node = joined(scope, [side_of(join) for join in joins], inside, beside)
        if inside[-1]:
            node = Filter(node, inside[-1])
        on = tuple(p for each in outside for p in each)
        for part in asking:
            scope, node, more = self._condition(part, scope, node, ctes, outer)
            on += more
        return scope, node, on

    # Subqueries -------------------------------------------------------------------------------------------------------

    def _condition(
        self, part: exp.Expr, scope: Scope, node: Node, ctes: Mapping[str, Lowered], outer: Scope | None
    ) -> tuple[Scope, Node, tuple[Expr, ...]]:
        """The rows that meet a condition with subqueries in it, and what of it needs `outer`."""
        kept = condition(part, node, self._bind(scope), self._subquery(scope, ctes))
        if kept is not None:
            return scope, kept, ()
        taken = Taken(self._name, is_subquery)
        rest = taken.out_of(part)
        scope, node = self._attached(taken, [rest], scope, node, ctes, outer)
        predicates = conjuncts(fix(self._binder(scope, [rest], outer).bind(rest), BOOL))
        own = {col.name for col in outputs(node)}
        mine = tuple(p for p in predicates if names(p) <= own)
        return scope, Filter(node, mine) if mine else node, tuple(p for p in predicates if p not in mine)

    def _attached(
        self,
        taken: Taken,
        trees: Sequence[exp.Expr],
        scope: Scope,
        node: Node,
        ctes: Mapping[str, Lowered],
        outer: Scope | None,
    ) -> tuple[Scope, Node]:
        """The rows with the answers of the subqueries of some expressions beside them."""
        for place, found in taken.within(trees).items():
            if place not in scope.answers:
                node, answer = attach(found, node, self._bind(scope), self._subquery(scope, ctes), self._name)
                scope = replace(scope, answers={**scope.answers, place: answer})
        return scope, node

    def _bind(self, scope: Scope) -> Callable[[exp.Expr], Expr]:
        return lambda tree: _settled(self._binder(scope, [tree]).bind(tree))

    def _subquery(
        self, scope: Scope, ctes: Mapping[str, Lowered], *, lateral: bool = False
    ) -> Callable[[exp.Expr], Body]:
        def lower(tree: exp.Expr) -> Body:
            while isinstance(tree, exp.Subquery) and not ctes_of(tree):
                tree = tree.this
            if isinstance(tree, exp.Select) and not ctes_of(tree) and not is_alone(tree):
                return self._tied(tree, ctes, scope, lateral=lateral)
            lowered = self.query(tree, ctes)
            return Body(lowered.node, lowered.columns)

        return lower

    def _tied(self, tree: exp.Select, ctes: Mapping[str, Lowered], outer: Scope, *, lateral: bool = False) -> Body:
        """A subquery that reads the query around it; a LIMIT is one for each row of that, DISTINCT makes no difference
        to whether there is a row."""
        limit, once = limit_of(tree), tree.args.get("distinct")
        if once is not None and (limit is not None or once.args.get("on") or lateral):
            raise UnsupportedQuery(
                "DISTINCT with LIMIT, DISTINCT ON or DISTINCT in LATERAL that reads the query around it is "
                "not supported in a view",
                hint="Use GROUP BY, or an aggregate.",
            )
        if limit is None:
            return self._body(tree, ctes, outer)
        order = list(tree.args["order"].expressions) if tree.args.get("order") else []
        body = self._body(tree, ctes, outer, [meant(one.this, tree) for one in order])
        values, more = body.values[: len(tree.expressions)], body.values[len(tree.expressions) :]
        orders = [ordered_by(value, one) for (_, value), one in zip(more, order, strict=True)]
        node = limited(body.node, tied_by(body.on, body.node), orders, limit, self._name)
        return replace(body, node=node, values=values)

    # GROUP BY ---------------------------------------------------------------------------------------------------------

    def _grouped(
        self,
        grouping: Grouping,
        scope: Scope,
        node: Node,
        on: tuple[Expr, ...],
        rest: Mapping[str, exp.Expr],
        ctes: Mapping[str, Lowered],
        outer: Scope | None,
    ) -> Body:
        keys = grouping.keys
        nodes = list(dict.fromkeys(found for e in grouping.expressions for found in calls_in(e)))
        calls = [taken_apart(node) for node in nodes]
        binder = self._binder(scope, [*keys, *(root for call in calls for root in call.roots)])
        call_types = self._describe(nodes, scope.twins())
        bound_keys = []
        for key in keys:
            bound = _settled(binder.bind(key))
            check_comparable("GROUP BY", (bound,), ordered=False)
            bound_keys.append((self._name("", key.name if isinstance(key, exp.Column) else "key"), bound))
        ties = list(grouped_by(on, node, self._name))
        remembered: Remembered = remember(
            node,
            (*bound_keys, *((name, expr) for name, expr, _ in ties)),
            [(call, binder, call_types[call.node]) for call in calls],
            self._name,
        )
        named = {key: name for key, (name, _) in zip(keys, bound_keys, strict=True)}
        above, marks = self._spread(grouping, remembered.node, named, tied=bool(ties))
        stands: dict[exp.Expr, Expr] = {
            **{key: Col(name, e.pg, e.spark) for key, (name, e) in zip(keys, bound_keys, strict=True)},
            **dict(zip(nodes, remembered.results, strict=True)),
            **marks,
        }
        body = self._above_groups(grouping, above, stands, rest, ctes, outer)
        if not keys and grouping.having is not None and ties:
            raise UnsupportedQuery(
                "HAVING in a subquery that reads the query around it needs GROUP BY", hint="Compare outside of it."
            )
        return replace(body, on=tuple(tie for _, _, tie in ties), lonely=not keys and grouping.having is None)

    def _spread(
        self, grouping: Grouping, node: Aggregate, named: Mapping[exp.Expr, str], *, tied: bool
    ) -> tuple[Node, dict[exp.Expr, Expr]]:
        """The groups of every grouping set, and what grouping() is above them."""
        if tied and len(grouping.sets) > 1:
            raise UnsupportedQuery(
                "GROUPING SETS in a subquery that reads the query around it are not supported in a view",
                hint="Put the grouping into a subquery in FROM and join with it.",
            )
        asked = list(dict.fromkeys(found for e in grouping.expressions for found in e.find_all(exp.Grouping)))
        marks = {self._name("", "grouping"): [named[unparen(key)] for key in one.expressions] for one in asked}
        above, values = spread(node, [frozenset(named[key] for key in each) for each in grouping.sets], marks)
        return above, dict(zip(asked, values.values(), strict=True))

    def _above_groups(
        self,
        grouping: Grouping,
        node: Node,
        stands: Mapping[exp.Expr, Expr],
        rest: Mapping[str, exp.Expr],
        ctes: Mapping[str, Lowered],
        outer: Scope | None,
    ) -> Body:
        """HAVING and SELECT over a grouped input: keys and aggregates are columns there."""
        places = {found: f"c{i}" for i, found in enumerate(stands)}
        scope = Scope({}, {(_GROUPED, places[found]): e for found, e in stands.items()})
        # A subquery sees the keys as the columns they are.
        seen = {(key.table, key.name): e for key, e in stands.items() if isinstance(key, exp.Column)}
        for place, found in rest.items():
            inside = Scope({}, seen)
            node, answer = attach(found, node, self._bind(inside), self._subquery(inside, ctes), self._name)
            scope = replace(scope, answers={**scope.answers, place: answer})

        def replaced(tree: exp.Expr) -> exp.Expr:
            return tree.copy().transform(lambda n: exp.column(places[n], table=_GROUPED) if n in places else n)

        if grouping.having is not None:
            having = replaced(grouping.having)
            node = Filter(node, conjuncts(fix(self._binder(scope, [having], outer).bind(having), BOOL)))
        windows = {place: over_parts(window, replaced) for place, window in grouping.windows.items()}
        scope, node = self._windowed(windows, scope, node)
        items = [replaced(item) for item in grouping.items]
        return Body(node, _values(items, self._binder(scope, items, outer)))

    # UNION, INTERSECT, EXCEPT -----------------------------------------------------------------------------------------

    def _set_operation(self, tree: exp.SetOperation, ctes: Mapping[str, Lowered]) -> Lowered:
        sides = [self.query(side, ctes) for side in (tree.this, tree.expression)]
        types = self._union_types(sides)
        columns = []
        converted: list[list[Expr]] = [[], []]
        for place, pg in enumerate(types):
            name = sides[0].columns[place][0]
            pair = common([_to_type(side.columns[place][1], pg) for side in sides], tree.key.upper(), pg)
            new = self._name("", name)
            columns.append((name, Col(new, pair[0].pg, pair[0].spark)))
            for side, expr in enumerate(pair):
                converted[side].append(expr)
        names = [col.name for _, col in columns]
        left, right = (
            Project(side.node, tuple(zip(names, exprs, strict=True)))
            for side, exprs in zip(sides, converted, strict=True)
        )
        once = bool(tree.args.get("distinct"))
        if once or not isinstance(tree, exp.Union):
            check_comparable(tree.key.upper(), [col for _, col in columns], ordered=False)
        return self._ordered(tree, Lowered(OPERATIONS[tree.key, once](left, right), tuple(columns)))

    def _ordered(self, tree: exp.SetOperation, lowered: Lowered) -> Lowered:
        limit = limit_of(tree)
        if limit is None:
            return lowered
        given = dict(lowered.columns)
        order = list(tree.args["order"].expressions) if tree.args.get("order") else []
        if any(not isinstance(one.this, exp.Column) or one.this.name not in given for one in order):
            raise UnsupportedQuery("ORDER BY of a set operation names its result columns", hint="Name a column.")
        orders = [ordered_by(given[one.this.name], one) for one in order]
        node = limited(lowered.node, (), orders, limit, self._name)
        return replace(lowered, node=Project(node, tuple((col.name, col) for _, col in lowered.columns)))

    def _union_types(self, sides: Sequence[Lowered]) -> list[PgType]:
        twins = [twin("t", [(f"c{i}", col.pg) for i, (_, col) in enumerate(side.columns)]) for side in sides]
        both = " UNION ALL ".join(f"SELECT * FROM {found.sql(dialect='postgres')}" for found in twins)
        told = [column.pg for column in self._typer.describe(both)]
        first, second = (side.columns for side in sides)
        # A type of the source that this server does not know (an enum) was stood in for by text.
        return [a.pg if a.pg == b.pg else pg for (_, a), (_, b), pg in zip(first, second, told, strict=True)]

    # types ------------------------------------------------------------------------------------------------------------

    def _binder(self, scope: Scope, roots: Sequence[exp.Expr], outer: Scope | None = None) -> Binder:
        parts = list(dict.fromkeys(part for root in roots for part in described(root.unalias())))
        for part in parts:
            if type(part) not in HANDLERS:
                raise refused(part)
        known = scope.columns if outer is None else outer.columns | scope.columns
        for column in (column for root in roots for column in root.find_all(exp.Column)):
            if (column.table, column.name) not in known:
                raise UnsupportedQuery(
                    f"{column.sql(dialect='postgres')} is out of reach for the subquery or the condition that reads it",
                    hint="A subquery may read the query directly around it; join further tables inside of it.",
                )
        twins = scope.twins() + (outer.twins() if outer is not None else [])
        return Binder(known, self._describe(parts, twins), HANDLERS)

    def _describe(self, parts: Sequence[exp.Expr], twins: list[exp.Subquery]) -> dict[exp.Expr, PgType]:
        if not parts:
            return {}
        listed = ", ".join(f"{part.sql(dialect='postgres')} AS e{i}" for i, part in enumerate(parts))
        sources = " CROSS JOIN ".join(one.sql(dialect="postgres") for one in twins)
        found = self._typer.describe(f"SELECT {listed}" + (f" FROM {sources}" if sources else ""))
        return {part: column.pg for part, column in zip(parts, found, strict=True)}


def _values(items: Sequence[exp.Expr], binder: Binder) -> tuple[tuple[str, Expr], ...]:
    return tuple((item.alias_or_name, _settled(binder.bind(item.unalias()))) for item in items)


def _settled(expr: Expr) -> Expr:
    """A bare literal that nothing gave a type is text."""
    return typed(expr, expr.pg) if isinstance(expr, Lit) and expr.bare else expr


def _to_type(expr: Expr, pg: PgType) -> Expr:
    if expr.pg == pg or kind(expr.pg) == kind(pg):
        return expr
    return cast_to(expr, pg)
