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
from penstock.views.both_sides import set_operation, to_type
from penstock.views.clauses import conditions, ctes_of, is_alone, meant, over_parts, unparen
from penstock.views.distinct import distinct
from penstock.views.domain import Apart, Domain, Place, domain, over, over_branches, product, read_of, skips_a_level
from penstock.views.expr import BOOL, Col, Expr, Lit, conjuncts, names
from penstock.views.expressions import HANDLERS
from penstock.views.expressions.binder import Binder, described, refused
from penstock.views.expressions.comparison import check_comparable
from penstock.views.expressions.convert import common, fix, typed
from penstock.views.first_rows import Limit, limit_of, limited
from penstock.views.functions_in_from import FunctionCall, call_of
from penstock.views.parentheses import operations
from penstock.views.rewrites.grouping_sets import sets_of, spread
from penstock.views.scope import Grouping, Lowered, Scope, joined, may_be_missing, renamed
from penstock.views.set_functions import Called, Recorded, argument, called, recorded
from penstock.views.subqueries import (
    Beside,
    Body,
    Taken,
    attach,
    condition,
    grouped_by,
    has_subquery,
    is_subquery,
    reads_around,
    tied_by,
)  # fmt: skip
from penstock.views.typer import Typer
from penstock.views.windows import is_window, ordered_by, parts, windowed

_GROUPED = "_grouped"
Rows = Callable[[Mapping[Place, Expr]], Node]  # those of the query around, with what is read of them


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
        self, trees: Sequence[exp.Expr], sides: Sequence[str], ctes: Mapping[str, Lowered]
    ) -> tuple[Scope, dict[str, Beside | Called | Recorded]]:
        """FROM by alias; a LATERAL subquery sees what is left of it."""
        sources: dict[str, Lowered] = {}
        beside: dict[str, Beside | Called | Recorded] = {}
        for tree, side in zip(trees, sides, strict=True):
            if (call := call_of(tree)) is not None:
                beside[call.alias], sources[call.alias] = self._called(call, Scope(sources))
                continue
            if not isinstance(tree, exp.Lateral):
                sources[tree.alias] = self._source(tree, ctes)
                continue
            left = {name: may_be_missing(one) if any(sides) else one for name, one in sources.items()}
            lower = self._subquery(Scope(left), ctes, self._rows_left(sources, beside, sides), lateral=True)
            body = lower(tree.this)
            if side and not body.lonely and reads_around(body):
                body = lower(tree.this, apart=True)
            called = [part.name for part in tree.args["alias"].columns]
            named = [*called, *(name for name, _ in body.values[len(called) :])]
            made = [
                (name, self._name(tree.alias, name), value) for name, (_, value) in zip(named, body.values, strict=True)
            ]
            beside[tree.alias] = Beside(body, tuple((new, value) for _, new, value in made))
            sources[tree.alias] = Lowered(body.node, tuple((n, Col(new, e.pg, e.spark)) for n, new, e in made))
        return Scope(sources), beside

    def _rows_left(
        self, sources: Mapping[str, Lowered], beside: Mapping[str, Beside | Called | Recorded], sides: Sequence[str]
    ) -> Rows:
        """Of the tables left of a LATERAL subquery, the values that it reads, each with each."""
        known, missing = dict(sources), any(sides)

        def rows(read: Mapping[Place, Expr]) -> Node:
            aliases = list(dict.fromkeys(alias for alias, _ in read))
            if any(alias in beside for alias in aliases):
                raise UnsupportedQuery(
                    "a LATERAL subquery that reads a function or another LATERAL subquery by more than equality is not "
                    "supported in a view",
                    hint="Write inner column = outer column, or put what is left of it into a subquery in FROM.",
                )
            parts = [(known[one].node, [e for (alias, _), e in read.items() if alias == one]) for one in aliases]
            return product(parts, missing=missing)

        return rows

    def _called(self, call: FunctionCall, left: Scope) -> tuple[Called | Recorded, Lowered]:
        """A function over what stands left of it."""
        binder = self._binder(left, call.args)
        twins = [one.sql(dialect="postgres") for one in left.twins()]
        told = self._typer.describe(f"SELECT f.* FROM {' CROSS JOIN '.join([*twins, f'LATERAL {call.sql()}'])}")
        if call.fields:
            (doc,) = (argument(binder, arg) for arg in call.args)
            named = [(name, self._name(call.alias, name), one.pg) for name, one in zip(call.columns, told, strict=True)]
            record = recorded(call.name, doc, named, self._name(call.alias, "value"))
            return record, Lowered(Constants((), ((),)), tuple(zip(call.columns, record.seen(), strict=True)))
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
            common([to_type(fix(binder.bind(row[place]), one.pg), one.pg) for row in cells], "VALUES", one.pg)
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
        found: Domain | None = None,
    ) -> Body:
        """A SELECT and `more` expressions; its conditions on the columns of `outer`, the query around it, are what ties
        it to that, or the values `found` of it."""
        scope, node, on = self._from(tree, ctes, outer)
        if found is not None:
            on = found.on(dict(scope.sources[found.alias].columns))
        taken, windows = Taken(self._name, is_subquery), Taken(self._name, is_window)
        items = [windows.out_of(taken.out_of(item)) for item in (*tree.expressions, *more)]
        having = tree.args.get("having") and taken.out_of(tree.args["having"].this)
        group = tree.args.get("group")
        sets = [tuple(taken.out_of(key) for key in each) for each in sets_of(group)]
        if windows.found and on and found is None:
            raise Apart(
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
            return self._grouped(grouping, scope, node, on, rest, ctes, outer, found)
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
        made = [operations(join) for join in joins]
        sides = [*("" for _ in first), *("".join(side for side, _ in each) for each in made)]
        scope, beside = self._sources(sources, sides, ctes)
        where = tree.args.get("where")
        parts = list(conditions(where.this)) if where is not None else []
        plain, asking = [p for p in parts if not has_subquery(p)], [p for p in parts if has_subquery(p)]
        listed = [(side, list(conditions(on)) if on is not None else []) for each in made for side, on in each]
        binder = self._binder(scope, [part for _, each in listed for part in each] + plain, outer)

        def bound(each: Sequence[exp.Expr]) -> tuple[Expr, ...]:
            return tuple(c for part in each for c in conjuncts(fix(binder.bind(part), BOOL)))

        own = {col.name for source in scope.sources.values() for _, col in source.columns}
        asked = [(side, bound(each)) for side, each in listed]
        if any(side and not names(p) <= own for side, each in asked for p in each):
            raise Apart(
                "an outer join in a subquery may not be on columns of the query around it",
                hint="Put that condition into the subquery's WHERE.",
            )
        mine = iter([(side, tuple(p for p in each if names(p) <= own)) for side, each in asked])
        scope, node = joined(scope, [[next(mine) for _ in each] for each in made], beside)
        kept = bound(plain)
        if inside := tuple(p for p in kept if names(p) <= own):
            node = Filter(node, inside)
        on = tuple(p for p in (*(p for _, each in asked for p in each), *kept) if not names(p) <= own)
        for part in asking:
            scope, node, more = self._condition(part, scope, node, ctes, outer)
            on += more
        return scope, node, on

    # Subqueries -------------------------------------------------------------------------------------------------------

    def _condition(
        self, part: exp.Expr, scope: Scope, node: Node, ctes: Mapping[str, Lowered], outer: Scope | None
    ) -> tuple[Scope, Node, tuple[Expr, ...]]:
        """The rows that meet a condition with subqueries in it, and what of it needs `outer`."""
        kept = condition(part, node, self._bind(scope), self._subquery(scope, ctes, _always(node)))
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
                lower = self._subquery(scope, ctes, _always(node))
                node, answer = attach(found, node, self._bind(scope), lower, self._name)
                scope = replace(scope, answers={**scope.answers, place: answer})
        return scope, node

    def _bind(self, scope: Scope) -> Callable[[exp.Expr], Expr]:
        return lambda tree: _settled(self._binder(scope, [tree]).bind(tree))

    def _subquery(
        self, scope: Scope, ctes: Mapping[str, Lowered], rows: Rows, *, lateral: bool = False
    ) -> Callable[..., Body]:
        """`rows` are those of the query around; `apart`: as a subquery over the values of these."""

        def lower(tree: exp.Expr, *, apart: bool = False) -> Body:
            while isinstance(tree, exp.Subquery) and not ctes_of(tree):
                tree = tree.this
            if ctes_of(tree) or not isinstance(tree, (exp.Select, exp.SetOperation)) or is_alone(tree):
                lowered = self.query(tree, ctes)
                return Body(lowered.node, lowered.columns)
            refusal = out_of_reach(tree)
            if not apart and isinstance(tree, exp.Select) and not skips_a_level(tree, scope.columns):
                try:
                    return self._tied(tree, ctes, scope, lateral=lateral)
                except Apart as error:
                    refusal = error
            if not (read := read_of(tree, scope.columns)):
                raise refusal
            return self._apart(tree, ctes, scope, domain(read, rows(read), self._name), lateral=lateral)

        return lower

    def _apart(
        self, tree: exp.Query, ctes: Mapping[str, Lowered], outer: Scope, found: Domain, *, lateral: bool
    ) -> Body:
        """A subquery computed for each value that it reads of the query around it."""
        known = {**ctes, found.alias: Lowered(found.node, found.given)}
        if isinstance(tree, exp.Select):
            return self._tied(over(tree, found), known, outer, lateral=lateral, found=found)
        lowered = self.query(over_branches(tree, found), known)
        size = len(lowered.columns) - len(found.given)
        return Body(lowered.node, lowered.columns[:size], found.on(dict(lowered.columns[size:])))

    def _tied(
        self,
        tree: exp.Select,
        ctes: Mapping[str, Lowered],
        outer: Scope,
        *,
        lateral: bool = False,
        found: Domain | None = None,
    ) -> Body:
        """A subquery that reads the query around it; a LIMIT is one for each row of that, DISTINCT makes no difference
        to whether there is a row."""
        limit, once = limit_of(tree), tree.args.get("distinct")
        if once is not None and (limit is not None or once.args.get("on")):
            raise UnsupportedQuery(
                "DISTINCT with LIMIT or DISTINCT ON in a subquery that reads the query around it is not supported in "
                "a view",
                hint="Use GROUP BY, or an aggregate.",
            )
        if once is not None and lateral:
            if found is None:
                raise Apart("DISTINCT in LATERAL", hint="Use GROUP BY.")
            return self._once(self._body(tree, ctes, outer, (), found))
        if limit is None:
            return self._body(tree, ctes, outer, (), found)
        order = list(tree.args["order"].expressions) if tree.args.get("order") else []
        body = self._body(tree, ctes, outer, [meant(one.this, tree) for one in order], found)
        values, more = body.values[: len(tree.expressions)], body.values[len(tree.expressions) :]
        orders = [ordered_by(value, one) for (_, value), one in zip(more, order, strict=True)]
        node = limited(body.node, tied_by(body.on, body.node), orders, limit, self._name)
        return replace(body, node=node, values=values)

    def _once(self, body: Body) -> Body:
        """Each row of a subquery once, for each value that ties it."""
        check_comparable("DISTINCT", [value for _, value in body.values], ordered=False)
        named = [(name, self._name("", name), value) for name, value in body.values]
        read = {col for one in body.on for col in names(one)}
        kept = tuple((col.name, col) for col in outputs(body.node) if col.name in read)
        node = distinct(Project(body.node, (*((new, value) for _, new, value in named), *kept)))
        given = {col.name: col for col in outputs(node)}
        return replace(body, node=node, values=tuple((name, given[new]) for name, new, _ in named))

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
        found: Domain | None = None,
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
        lonely = not keys and grouping.having is None
        if found is not None and outer is not None:
            held = {expr: Col(name, expr.pg, expr.spark) for name, expr, _ in ties}
            for place, (name, _) in found.columns.items():
                value = outer.columns[place] if lonely else held.get(scope.columns[found.alias, name])
                stands |= {found.column(name): value} if value is not None else {}
        body = self._above_groups(grouping, above, stands, rest, ctes, outer)
        if not keys and grouping.having is not None and ties:
            raise UnsupportedQuery(
                "HAVING in a subquery that reads the query around it needs GROUP BY", hint="Compare outside of it."
            )
        return replace(body, on=tuple(tie for _, _, tie in ties), lonely=lonely)

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
            lower = self._subquery(inside, ctes, _always(node))
            node, answer = attach(found, node, self._bind(inside), lower, self._name)
            scope = replace(scope, answers={**scope.answers, place: answer})

        def replaced(tree: exp.Expr) -> exp.Expr:
            return tree.copy().transform(lambda n: exp.column(places[n], table=_GROUPED) if n in places else n)

        if grouping.having is not None:
            having = replaced(grouping.having)
            predicates = conjuncts(fix(self._binder(scope, [having], outer).bind(having), BOOL))
            if not frozenset().union(*map(names, predicates)) <= {col.name for col in outputs(node)}:
                raise Apart("HAVING that reads the query around it", hint="Compare outside of the subquery.")
            node = Filter(node, predicates)
        windows = {place: over_parts(window, replaced) for place, window in grouping.windows.items()}
        scope, node = self._windowed(windows, scope, node)
        items = [replaced(item) for item in grouping.items]
        return Body(node, _values(items, self._binder(scope, items, outer)))

    # UNION, INTERSECT, EXCEPT -----------------------------------------------------------------------------------------

    def _set_operation(self, tree: exp.SetOperation, ctes: Mapping[str, Lowered]) -> Lowered:
        sides = [self.query(side, ctes) for side in (tree.this, tree.expression)]
        return set_operation(tree, sides, self._typer, self._name)

    # types ------------------------------------------------------------------------------------------------------------

    def _binder(self, scope: Scope, roots: Sequence[exp.Expr], outer: Scope | None = None) -> Binder:
        parts = list(dict.fromkeys(part for root in roots for part in described(root.unalias())))
        for part in parts:
            if type(part) not in HANDLERS:
                raise refused(part)
        known = scope.columns if outer is None else outer.columns | scope.columns
        for column in (column for root in roots for column in root.find_all(exp.Column)):
            if (column.table, column.name) not in known:
                raise out_of_reach(column)
        twins = scope.twins() + (outer.twins() if outer is not None else [])
        return Binder(known, self._describe(parts, twins), HANDLERS)

    def _describe(self, parts: Sequence[exp.Expr], twins: list[exp.Subquery]) -> dict[exp.Expr, PgType]:
        if not parts:
            return {}
        listed = ", ".join(f"{part.sql(dialect='postgres')} AS e{i}" for i, part in enumerate(parts))
        sources = " CROSS JOIN ".join(one.sql(dialect="postgres") for one in twins)
        found = self._typer.describe(f"SELECT {listed}" + (f" FROM {sources}" if sources else ""))
        return {part: column.pg for part, column in zip(parts, found, strict=True)}


def out_of_reach(tree: exp.Expr) -> Apart:
    return Apart(
        f"{tree.sql(dialect='postgres')} is out of reach for the subquery or the condition that reads it",
        hint="Join the tables that it reads inside of it.",
    )


def _always(node: Node) -> Rows:
    return lambda read: node


def _values(items: Sequence[exp.Expr], binder: Binder) -> tuple[tuple[str, Expr], ...]:
    return tuple((item.alias_or_name, _settled(binder.bind(item.unalias()))) for item in items)


def _settled(expr: Expr) -> Expr:
    """A bare literal that nothing gave a type is text."""
    return typed(expr, expr.pg) if isinstance(expr, Lit) and expr.bare else expr
