"""A subquery that equal values do not tie to the query around it is computed for each value that it reads of that.

The values, each combination once, are a relation D: it joins the subquery's FROM, whose every level then reads D, not
the query around it, and D's columns are what ties the result: L ⟕ S(l) = L ⟕ (S(D) by D), D = δ(π(L)). So a level may
be skipped, and aggregates, first rows and windows hold for each value of D. More values than L has do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.aggregates import is_aggregate
from penstock.views.algebra import Constants, Join, Node, Project, UnionAll, outputs
from penstock.views.distinct import distinct
from penstock.views.expr import BOOL, Col, Expr, Lit, call, columns, is_nullable, kind
from penstock.views.keys import keys_of
from penstock.views.parentheses import JOINS, operations

Place = tuple[str, str]  # a table and its column
Name = Callable[..., str]
Given = tuple[tuple[str, Col], ...]


class Apart(UnsupportedQuery):
    """Equal values alone do not tie it: to be computed for each value of the query around."""


@dataclass(frozen=True)
class Domain:
    """D: its name in the subquery, its columns by what they stand for, and what of L ties which of them."""

    alias: str
    node: Node
    columns: Mapping[Place, tuple[str, Col]]
    ties: tuple[tuple[str, Col, Expr], ...]  # the column's name, the column, and what it is of L

    @property
    def given(self) -> Given:
        """What SQL calls the columns."""
        named = dict(self.columns.values())
        return tuple({**named, **{name: col for name, col, _ in self.ties}}.items())

    def column(self, name: str) -> exp.Column:
        return exp.column(name, table=self.alias, quoted=True)

    def on(self, used: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """The ties to the columns as some use of D has them."""
        return tuple(
            call("compare", outer, used[name], pg=BOOL, detail="<=>" if is_nullable(outer) else "=")
            for name, _, outer in self.ties
        )


def domain(read: Mapping[Place, Expr], rows: Node, name: Name) -> Domain:
    """The values of what is `read` of the rows; by their key where some have no equality that can be relied on."""
    alias = name("", "around")
    made = {place: name("", *place) for place in read}
    items = tuple((made[place], expr) for place, expr in read.items())
    if all(_has_equality(expr) for expr in read.values()):
        node = distinct(Project(rows, items))
        tied = [(made[place], expr) for place, expr in read.items()]
    else:
        keys = [key for key in keys_of(rows) if key]
        if not keys:
            raise UnsupportedQuery(
                "a subquery that reads jsonb, an array or another value held as text of a query without a key is not "
                "supported in a view",
                hint="Select the key of the table in the query around it, or write the function in FROM beside it.",
            )
        own = [(name("", col.name), col) for col in outputs(rows) if col.name in keys[0]]
        node, tied = Project(rows, (*items, *own)), list(own)
    cols = {col.name: col for col in outputs(node)}
    return Domain(
        alias,
        node,
        {place: (made[place], cols[made[place]]) for place in read},
        tuple((new, cols[new], expr) for new, expr in tied),
    )


def _has_equality(expr: Expr) -> bool:
    return kind(expr.pg) != "opaque" or expr.pg.equal_as_held


def product(sources: Sequence[tuple[Node, Sequence[Expr]]], *, missing: bool) -> Node:
    """The values of some columns of several tables, each with each; `missing`: a table may give NULLs instead."""
    parts: list[Node] = []
    for node, exprs in sources:
        items = {col.name: col for expr in exprs for col in columns(expr)}
        part: Node = Project(node, tuple(items.items()))
        if missing:
            known = [col for col in outputs(node) if col.name in items]
            part = Project(node, tuple((col.name, col) for col in known))
            nulls = tuple(Lit(None, col.pg, col.spark) for col in known)
            none = Project(Constants((), ((),)), tuple(zip([col.name for col in known], nulls, strict=True)))
            part = UnionAll((part, none))
        parts.append(part)
    return parts[0] if len(parts) == 1 else Join(tuple(parts), ())


def read_of(tree: exp.Expr, outer: Mapping[Place, Expr]) -> dict[Place, Expr]:
    """What a subquery reads of the query around it."""
    places = dict.fromkeys((column.table, column.name) for column in tree.find_all(exp.Column))
    return {place: outer[place] for place in places if place in outer}


def skips_a_level(tree: exp.Expr, outer: Mapping[Place, Expr]) -> bool:
    """True where a query inside of the subquery reads the query around it."""
    return any(
        (column.table, column.name) in outer and column.find_ancestor(exp.Select) is not tree
        for column in tree.find_all(exp.Column)
    )


# The subquery over D --------------------------------------------------------------------------------------------------


def over(tree: exp.Select, found: Domain) -> exp.Select:
    """The SELECT with D in each FROM at its top, and D's columns wherever it read the query around it."""
    made = _over(tree, found)
    assert isinstance(made, exp.Select)
    return made


def _over(tree: exp.Expr, found: Domain) -> exp.Expr:
    tree = tree.copy().transform(lambda node: _column(node, found))
    for select in _selects(tree):
        for window in [node for node in select.find_all(exp.Window) if node.find_ancestor(exp.Select) is select]:
            window.set("partition_by", [*(window.args.get("partition_by") or []), *_columns(found)])
        _join(select, found)
    return tree


def over_branches(tree: exp.Expr, found: Domain) -> exp.Expr:
    """UNION and the like: each SELECT gives D's columns too, so that what is equal is equal for one value."""
    tree = _over(tree, found)
    for node in (tree, *_selects(tree)):
        if node.args.get("limit") or node.args.get("offset") or _once_by(node):
            raise UnsupportedQuery(
                "LIMIT or DISTINCT ON in a set operation that reads the query around it is not supported in a view",
                hint="Put the set operation into a subquery in FROM.",
            )
    for select in _selects(tree):
        group = select.args.get("group")
        if group is None and any(is_aggregate(item) for item in select.expressions):
            raise UnsupportedQuery(
                "an aggregate without GROUP BY in a set operation that reads the query around it is not supported in "
                "a view",
                hint="Aggregate in a subquery of its own.",
            )
        if group is not None:
            group.set("expressions", [*group.expressions, *_columns(found)])
        more = [
            exp.alias_(column, name, quoted=True)
            for column, (name, _) in zip(_columns(found), found.given, strict=True)
        ]
        select.set("expressions", [*select.expressions, *more])
    return tree


def _once_by(node: exp.Expr) -> bool:
    once = node.args.get("distinct")
    return isinstance(once, exp.Expr) and bool(once.args.get("on"))


def _column(node: exp.Expr, found: Domain) -> exp.Expr:
    if isinstance(node, exp.Column) and (node.table, node.name) in found.columns:
        return found.column(found.columns[node.table, node.name][0])
    return node


def _columns(found: Domain) -> list[exp.Expr]:
    return [found.column(name) for name, _ in found.given]


def _selects(tree: exp.Expr) -> Iterator[exp.Select]:
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if isinstance(tree, exp.SetOperation):
        yield from _selects(tree.this)
        yield from _selects(tree.expression)
    elif isinstance(tree, exp.Select):
        yield tree


def _join(select: exp.Select, found: Domain) -> None:
    """D comes first, so that what stands in FROM may read it; last where a join keeps rows that met nothing."""
    start, joins = select.args.get("from_"), list(select.args.get("joins") or [])
    values = exp.Table(this=exp.to_identifier(found.alias), alias=exp.TableAlias(this=exp.to_identifier(found.alias)))
    select.set("from_", exp.From(this=values))
    if start is None:
        return
    for join in joins:
        join.set("this", _lateral(join.this, found))
    kept = any(side in ("RIGHT", "FULL") for join in joins for side, _ in operations(join))
    first = exp.Join(this=_lateral(start.this, found), kind="CROSS")
    if kept and any(column.table == found.alias for join in joins for column in join.find_all(exp.Column)):
        raise UnsupportedQuery(
            "RIGHT or FULL JOIN in a subquery on columns of the query around it is not supported in a view",
            hint="Turn it round to a LEFT JOIN, or put the condition into the subquery's WHERE.",
        )
    if kept:
        first = exp.Join(this=start.this, on=exp.Anonymous(this=JOINS))
        told = [part for side, on in operations(joins[-1]) for part in (exp.Literal.string(side), on or exp.true())]
        told += [exp.Literal.string(""), exp.true()]
        joins[-1] = exp.Join(this=joins[-1].this, on=exp.Anonymous(this=JOINS, expressions=told))
    select.set("joins", [first, *joins])


def _lateral(source: exp.Expr, found: Domain) -> exp.Expr:
    """A subquery in FROM that reads D."""
    if not isinstance(source, exp.Subquery) or not any(
        column.table == found.alias for column in source.find_all(exp.Column)
    ):
        return source
    alias = source.args["alias"]
    source.set("alias", None)
    return exp.Lateral(this=source, alias=alias)
