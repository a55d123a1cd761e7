"""Subqueries in expressions become joins: a condition on its own keeps rows, any other use is a column joined to them.

A subquery is lowered to its rows and the conditions that tie them to the query around it. EXISTS and IN keep the rows
that have a match, NOT EXISTS those that have none. NOT IN is true where no row is equal, none is NULL, and the value is
not NULL either unless there is no row at all: three times NOT EXISTS. Under OR, in CASE or in SELECT the same questions
are answered by a column. A scalar subquery is a column of the one row it gives: an aggregate, or one found by its key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.algebra import Aggregate, Exists, Filter, Join, Node, OuterJoin, Project, outputs, walk
from penstock.views.domain import Apart
from penstock.views.expr import BOOL, TRUE, Call, Col, Expr, Lit, call, is_nullable, lit, names, substitute
from penstock.views.expressions.comparison import compare
from penstock.views.rules.exists import witnesses
from penstock.views.ties import Pair, at_most_one, ties

SUBQUERIES = "_sub"
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
Bind = Callable[[exp.Expr], Expr]
Name = Callable[..., str]


@dataclass(frozen=True)
class Body:
    """A SELECT before its projection: rows, the values it gives of each, and `on`, what ties them to the query around.

    `lonely`: an aggregate without GROUP BY, which gives a row also where there is none to aggregate.
    """

    node: Node
    values: tuple[tuple[str, Expr], ...]
    on: tuple[Expr, ...] = ()
    lonely: bool = False


Lower = Callable[..., Body]  # of a query; `apart`: for each value that it reads of the query around it


def reads_around(body: Body) -> bool:
    """True where what it gives reads the query around it."""
    own = {col.name for col in outputs(body.node)}
    return not all(names(value) <= own for _, value in body.values)


class Taken:
    """Expressions with some parts taken out: each stands as a column of `_sub` until its answer is known."""

    def __init__(self, name: Name, wanted: Callable[[exp.Expr], bool]) -> None:
        self._name = name
        self._wanted = wanted
        self.found: dict[exp.Expr, str] = {}

    def out_of(self, tree: exp.Expr) -> exp.Expr:
        return tree.copy().transform(lambda node: self._placeholder(node) if self._wanted(node) else node)

    def _placeholder(self, node: exp.Expr) -> exp.Expr:
        place = self.found.setdefault(node.copy(), "")
        if not place:
            place = self.found[node.copy()] = self._name("", "sub")
        return exp.column(place, table=SUBQUERIES)

    def within(self, trees: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
        used = {column.name for tree in trees for column in tree.find_all(exp.Column) if column.table == SUBQUERIES}
        return {place: node for node, place in self.found.items() if place in used}


def is_subquery(node: exp.Expr) -> bool:
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if type(node) in _COMPARISONS and isinstance(node.expression, (exp.Any, exp.All)):
        return isinstance(node.expression.this, exp.Query)
    return isinstance(node, (exp.Exists, exp.Subquery))


def has_subquery(tree: exp.Expr) -> bool:
    return any(is_subquery(node) for node in tree.walk())


# As a condition -------------------------------------------------------------------------------------------------------


def condition(tree: exp.Expr, node: Node, bind: Bind, lower: Lower) -> Node | None:
    """The rows that meet a condition which is nothing but a subquery's, or the negation of one; None if it is more."""
    found, negated = _negations(tree)
    if isinstance(found, exp.Exists):
        body = _rows(lower(found.this))
        return Exists(node, body.node, body.on, negated)
    if isinstance(found, exp.In) and is_subquery(found):
        given, body = _operands(found.this, found.args["query"], bind, lower)
        return _in(node, body, given, negated=negated)
    if is_subquery(found) and type(found) in _COMPARISONS:
        given, body = _operands(found.this, found.expression.this, bind, lower)
        return _quantified(node, body, found, given, negated=negated)
    return None


def _negations(tree: exp.Expr) -> tuple[exp.Expr, bool]:
    negated = False
    while isinstance(tree, (exp.Paren, exp.Not)):
        negated ^= isinstance(tree, exp.Not)
        tree = tree.this
    return tree, negated


def _operands(needle: exp.Expr, query: exp.Expr, bind: Bind, lower: Lower) -> tuple[list[tuple[Expr, Expr]], Body]:
    """What is looked for beside what the subquery gives, pair by pair."""
    body = _rows(lower(query))
    listed = needle.expressions if isinstance(needle, exp.Tuple) else [needle]
    if any(has_subquery(one) for one in listed):
        raise UnsupportedQuery("a subquery beside IN (subquery) is not supported in a view", hint="Use a join.")
    return list(zip([bind(one) for one in listed], [value for _, value in body.values], strict=True)), body


def _rows(body: Body) -> Body:
    if body.lonely and body.on:
        raise UnsupportedQuery(
            "EXISTS or IN over an aggregate without GROUP BY that reads the query around it is not supported in a view",
            hint="Compare with the aggregate as a scalar subquery.",
        )
    return body


def _in(node: Node, body: Body, given: list[tuple[Expr, Expr]], *, negated: bool) -> Node:
    equal = tuple(compare("=", mine, theirs) for mine, theirs in given)
    if not negated:
        return Exists(node, body.node, (*body.on, *equal))
    if len(given) > 1 and any(is_nullable(one) for pair in given for one in pair):
        return Exists(node, body.node, (*body.on, *map(_not_false, equal)), negated=True)
    for more in (equal, *_null_cases(given)):
        node = Exists(node, body.node, (*body.on, *more), negated=True)
    return node


def _null_cases(given: Sequence[tuple[Expr, Expr]]) -> list[tuple[Expr, ...]]:
    """Where `mine = theirs` is neither true nor false."""
    return [(_is_null(one),) for mine, theirs in given for one in (theirs, mine) if is_nullable(one)]


def _quantified(node: Node, body: Body, tree: exp.Expr, given: Sequence[tuple[Expr, Expr]], *, negated: bool) -> Node:
    """x > ANY (…): some row compares true; NOT …: all false. x > ALL (…): all true; NOT …: some row false."""
    sign = _COMPARISONS[type(tree)]
    ((mine, theirs),) = given
    if (isinstance(tree.expression, exp.Any) and sign == "=") or (
        isinstance(tree.expression, exp.All) and sign == "<>"
    ):
        return _in(node, body, [(mine, theirs)], negated=negated != isinstance(tree.expression, exp.All))
    found = compare(sign, mine, theirs, ordered=sign not in ("=", "<>"))
    if isinstance(tree.expression, exp.Any):
        return Exists(node, body.node, (*body.on, _not_false(found) if negated else found), negated)
    wrong = call("not", found, pg=BOOL) if negated else call("not", compare("<=>", found, TRUE), pg=BOOL)
    return Exists(node, body.node, (*body.on, wrong), not negated)


def _not_false(found: Expr) -> Expr:
    return call("not", compare("<=>", found, lit("false", BOOL)), pg=BOOL)


def _is_null(expr: Expr) -> Expr:
    return call("is_null", expr, pg=BOOL)


# As a value -----------------------------------------------------------------------------------------------------------


def attach(tree: exp.Expr, node: Node, bind: Bind, lower: Lower, name: Name) -> tuple[Node, Expr]:
    """The rows with the subquery's answer beside them, and that answer."""
    if isinstance(tree, exp.Exists):
        body = _rows(lower(tree.this))
        return _marked(node, body, body.on, name)
    if isinstance(tree, exp.In):
        return _in_value(tree, node, bind, lower, name)
    if isinstance(tree, exp.Subquery):
        body = lower(tree)
        return _scalar(body if body.lonely or not reads_around(body) else lower(tree, apart=True), node, name)
    return _quantified_value(tree, node, bind, lower, name)


def _quantified_value(tree: exp.Expr, node: Node, bind: Bind, lower: Lower, name: Name) -> tuple[Node, Expr]:
    """x > ANY (…): true if some comparison is, else NULL if some is neither, else false; ALL: false, NULL, true."""
    given, body = _operands(tree.this, tree.expression.this, bind, lower)
    if len(given) > 1:
        raise UnsupportedQuery(
            "(a, b) beside ANY or ALL (subquery) under OR, in CASE or in SELECT is not supported in a view",
            hint="Write it with EXISTS.",
        )
    sign = _COMPARISONS[type(tree)]
    found = compare(sign, *given[0], ordered=sign not in ("=", "<>"))
    some = isinstance(tree.expression, exp.Any)
    deciding = found if some else call("not", found, pg=BOOL)
    node, decided = _marked(node, body, (*body.on, deciding), name)
    parts: list[Expr] = [decided, lit("true" if some else "false", BOOL)]
    if any(is_nullable(one) for one in given[0]):
        node, unknown = _marked(node, body, (*body.on, _is_null(found)), name)
        parts += [unknown, Lit(None, BOOL, "boolean")]
    return node, call("case", *parts, lit("false" if some else "true", BOOL), pg=BOOL)


def _marked(node: Node, body: Body, on: tuple[Expr, ...], name: Name) -> tuple[Node, Expr]:
    found = witnesses(node, body.node, on)
    mark = name("", "found")
    fresh = {col.name: name("", col.name) for col in outputs(found.known)}
    known = Project(found.known, (*((fresh[c.name], c) for c in outputs(found.known)), (mark, TRUE)))
    renamed = {c.name: replace(c, name=fresh[c.name]) for c in outputs(found.known)}
    tied = tuple(substitute(one, renamed) for one in found.on)
    return OuterJoin(node, known, (*found.left, *tied)), call("not", _is_null(Col(mark, BOOL, "boolean")), pg=BOOL)


def _in_value(tree: exp.In, node: Node, bind: Bind, lower: Lower, name: Name) -> tuple[Node, Expr]:
    """True if there is an equal row; else NULL if one of both is NULL; else false."""
    given, body = _operands(tree.this, tree.args["query"], bind, lower)
    if len(given) > 1:
        raise UnsupportedQuery(
            "(a, b) IN (subquery) under OR, in CASE or in SELECT is not supported in a view",
            hint="Write it with EXISTS.",
        )
    node, yes = _marked(node, body, (*body.on, compare("=", *given[0])), name)
    parts: list[Expr] = [yes, TRUE]
    for case in _null_cases(given):
        node, unknown = _marked(node, body, (*body.on, *case), name)
        parts += [unknown, Lit(None, BOOL, "boolean")]
    return node, call("case", *parts, lit("false", BOOL), pg=BOOL)


def _scalar(body: Body, node: Node, name: Name) -> tuple[Node, Expr]:
    ((_, value),) = body.values
    if body.lonely and not body.on:
        return Join((node, body.node), ()), value
    if body.lonely:
        return OuterJoin(node, body.node, body.on), substitute(value, _of_no_rows(body.node))
    if not at_most_one(body.node, ties(body.on, node, body.node).equal):
        raise UnsupportedQuery(
            "a scalar subquery that may give more than one row is not supported in a view",
            hint="Find the row by its whole key, or aggregate: (SELECT max(x) …).",
        )
    own = {col.name for col in outputs(body.node)}
    if not names(value) <= own:
        raise UnsupportedQuery(
            "a scalar subquery whose result reads the query around it is not supported in a view",
            hint="Compute with the subquery's result outside of it.",
        )
    given = name("", "value")
    read = {col for one in body.on for col in names(one)} & own
    columns = tuple((col.name, col) for col in outputs(body.node) if col.name in read)
    return OuterJoin(node, Project(body.node, (*columns, (given, value))), body.on), Col(given, value.pg, value.spark)


def _of_no_rows(node: Node) -> Mapping[str, Expr]:
    """What an aggregate's measures are where there is no group: counts and sums are 0."""
    groups = next(found for found in reversed(list(walk(node))) if isinstance(found, Aggregate))
    return {
        m.name: call("coalesce", col, lit(0, m.column.pg, m.column.spark), pg=m.column.pg, spark=m.column.spark)
        for m, col in zip(groups.measures, outputs(groups)[len(groups.keys) :], strict=True)
        if not m.column.nullable
    }


# In FROM --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """A LATERAL subquery: its rows and the columns it gives, which may read what stands left of it."""

    body: Body
    items: tuple[tuple[str, Expr], ...]

    def beside(self, node: Node, side: str, on: tuple[Expr, ...]) -> Node:
        return joined_beside(node, self, side, on)

    def reads(self) -> frozenset[str]:
        """What it reads of the tables left of it."""
        read = {name for expr in (*self.body.on, *(value for _, value in self.items)) for name in names(expr)}
        return frozenset(read - {col.name for col in outputs(self.body.node)})


def joined_beside(node: Node, found: Beside, side: str, on: tuple[Expr, ...]) -> Node:
    """The rows, each with those that the subquery gives for it."""
    body, own = found.body, tuple((col.name, col) for col in outputs(node))
    if side not in ("", "LEFT"):
        raise UnsupportedQuery(f"{side} JOIN LATERAL is not supported in a view", hint="Use LEFT or inner JOIN.")
    if body.lonely and body.on:
        if side and on and on != (TRUE,):
            raise UnsupportedQuery("LEFT JOIN LATERAL of an aggregate is ON true", hint="Use CASE in SELECT.")
        stands = _of_no_rows(body.node)
        items = tuple((name, substitute(value, stands)) for name, value in found.items)
        given: Node = Project(OuterJoin(node, body.node, body.on), (*own, *items))
        return Filter(given, on) if on else given
    if not side:
        given = Project(Join((node, body.node), body.on), (*own, *found.items))
        return Filter(given, on) if on else given
    inner = {col.name for col in outputs(body.node)}
    if not all(names(value) <= inner for _, value in found.items):
        raise UnsupportedQuery(
            "LEFT JOIN LATERAL of values that read the tables left of it is not supported in a view",
            hint="Compute with them in SELECT.",
        )
    read = {name for one in body.on for name in names(one)} & inner
    kept = tuple((col.name, col) for col in outputs(body.node) if col.name in read)
    return OuterJoin(node, Project(body.node, (*kept, *found.items)), (*body.on, *on))


# What ties it ---------------------------------------------------------------------------------------------------------


def grouped_by(on: Sequence[Expr], inner: Node, name: Name) -> Iterator[tuple[str, Expr, Expr]]:
    """For an aggregate: each tie as a group key (its name, what it is of the inner rows) and the tie to it."""
    own = {col.name for col in outputs(inner)}
    for one in on:
        if (pair := _tie(one, own)) is None:
            raise Apart(
                "an aggregate in a subquery may be tied to the query around it by equality only",
                hint="Write inner column = outer column, the rest outside of the aggregate.",
            )
        key = name("", "tie")
        yield key, pair.right, pair.condition(Col(key, pair.right.pg, pair.right.spark))


def tied_by(on: Sequence[Expr], inner: Node) -> list[Expr]:
    """What of the inner rows the ties read: a LIMIT holds for each of these values."""
    own = {col.name for col in outputs(inner)}
    found = [_tie(one, own) for one in on]
    if any(pair is None for pair in found):
        raise Apart(
            "LIMIT in a subquery that is tied to the query around it by more than equality is not supported in a view",
            hint="Write inner column = outer column, or aggregate instead.",
        )
    return [pair.right for pair in found if pair is not None]


def _tie(condition: Expr, own: set[str]) -> Pair | None:
    """An equality of something outside with something of the inner rows."""
    if isinstance(condition, Call) and condition.op == "compare" and condition.detail in ("=", "<=>"):
        for mine, theirs in (condition.args, condition.args[::-1]):
            if names(theirs) <= own and not names(mine) & own:
                return Pair(mine, theirs, condition.detail)
    return None
