"""An aggregate call taken apart: function, arguments, DISTINCT, ORDER BY and FILTER, wherever they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views.algebra import Ordering
from penstock.views.expr import BOOL, INT4, Expr, call, lit
from penstock.views.expressions.binder import Binder, refuse_types
from penstock.views.expressions.comparison import check_comparable
from penstock.views.expressions.convert import fix, plain

_NAMES: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max",
    exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or",
    exp.BitwiseAndAgg: "bit_and", exp.BitwiseOrAgg: "bit_or", exp.BitwiseXorAgg: "bit_xor",
    exp.Stddev: "stddev_samp", exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp", exp.VariancePop: "var_pop",
    exp.Corr: "corr", exp.CovarPop: "covar_pop", exp.CovarSamp: "covar_samp",
    exp.RegrSlope: "regr_slope", exp.RegrIntercept: "regr_intercept", exp.RegrR2: "regr_r2",
    exp.RegrCount: "regr_count", exp.RegrAvgx: "regr_avgx", exp.RegrAvgy: "regr_avgy",
    exp.RegrSxx: "regr_sxx", exp.RegrSyy: "regr_syy", exp.RegrSxy: "regr_sxy",
    exp.Mode: "mode", exp.PercentileCont: "percentile_cont", exp.PercentileDisc: "percentile_disc",
    exp.GroupConcat: "string_agg", exp.ArrayAgg: "array_agg", exp.JSONArrayAgg: "json_agg",
    exp.JSONObjectAgg: "json_object_agg", exp.JSONBObjectAgg: "jsonb_object_agg", exp.AnyValue: "any_value",
}  # fmt: skip
_NAMED = {"every": "bool_and", "jsonb_agg": "jsonb_agg"}  # what the parser knows only by its name


@dataclass(frozen=True)
class Bound:
    """A call over typed expressions; `pg` is the type of its result as PostgreSQL told it."""

    function: str
    args: tuple[Expr, ...]
    distinct: bool
    order: tuple[Ordering, ...]
    where: Expr | None
    pg: PgType

    @property
    def arg(self) -> Expr:
        """The first argument on its own, NULL where FILTER leaves the row out: for functions that skip NULL."""
        return self.kept(plain(self.args[0]))

    def kept(self, arg: Expr) -> Expr:
        return arg if self.where is None else call("case", self.where, arg, pg=arg.pg, spark=arg.spark)

    def only(self, *, arguments: int, ordered: bool = False) -> None:
        """Refuse what the function does not take; the order in which it sees rows may be asked for in vain."""
        if len(self.args) != arguments:
            raise refuse_types(f"{self.function} of {len(self.args)} arguments", self.args)
        if self.distinct and self.args:
            check_comparable(f"{self.function}(DISTINCT)", self.args, ordered=ordered)


@dataclass(frozen=True)
class AggregateCall:
    """As written: `node` is the whole of it, FILTER and WITHIN GROUP included."""

    node: exp.Expr
    function: str
    args: tuple[exp.Expr, ...]
    distinct: bool
    order: tuple[exp.Expr, ...]
    where: exp.Expr | None

    @property
    def roots(self) -> list[exp.Expr]:
        """The expressions to bind."""
        items = [*self.args, *(item.this for item in self.order), *([self.where] if self.where is not None else [])]
        return [item for item in items if not isinstance(item, exp.Star)]

    def bound(self, binder: Binder, pg: PgType) -> Bound:
        args = tuple(binder.bind(arg) for arg in self.args if not isinstance(arg, exp.Star))
        order = tuple(_ordering(binder, item) for item in self.order)
        where = fix(binder.bind(self.where), BOOL) if self.where is not None else None
        if self.function == "count" and not args:  # count(*) counts a constant
            args = (lit(1, INT4),) if where is not None else ()
        return Bound(self.function, args, self.distinct, order, where, pg)


def _ordering(binder: Binder, item: exp.Expr) -> Ordering:
    expr = plain(binder.bind(item.this))
    check_comparable("ORDER BY", (expr,), ordered=True)
    descending = bool(item.args.get("desc"))
    first = item.args.get("nulls_first")
    return Ordering(expr, descending, descending if first is None else bool(first))


def is_aggregate(tree: exp.Expr) -> bool:
    """True for an aggregate call, and for an expression that contains one of its own SELECT."""
    return next(calls_in(tree), None) is not None


def calls_in(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregate calls of an expression; not those of subqueries, and not of windows."""
    if isinstance(tree, exp.Query):
        return
    if isinstance(tree, exp.Window):
        for part in (*tree.this.iter_expressions(), *(e for e in tree.iter_expressions() if e is not tree.this)):
            yield from calls_in(part)
        return
    if named_function(tree) is not None or (isinstance(tree, exp.AggFunc) and not isinstance(tree, exp.Grouping)):
        yield tree
        return
    for child in tree.iter_expressions():
        yield from calls_in(child)


def named_function(node: exp.Expr) -> str | None:
    """The aggregate function of a call, by PostgreSQL's name; None for anything else."""
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        return named_function(node.this)
    if isinstance(node, exp.Anonymous):
        return _NAMED.get(node.name.lower())
    return _NAMES.get(type(node))


def taken_apart(node: exp.Expr) -> AggregateCall:
    """
    >>> from sqlglot import parse_one
    >>> call = taken_apart(parse_one("string_agg(DISTINCT a, ',' ORDER BY a) FILTER (WHERE b)", read="postgres"))
    >>> call.function, [arg.sql() for arg in call.args], call.distinct, len(call.order), call.where.sql()
    ('string_agg', ['a', "','"], True, 1, 'b')
    """
    where: exp.Expr | None = None
    order: tuple[exp.Expr, ...] = ()
    within, function = node, named_function(node) or ""
    if isinstance(within, exp.Filter):
        where, within = within.expression.this, within.this
    if isinstance(within, exp.WithinGroup):
        order, within = tuple(within.expression.expressions), within.this
    args: list[exp.Expr] = []
    distinct = False
    for arg in _arguments(within):
        if isinstance(arg, exp.Order):
            order, arg = tuple(arg.expressions), arg.this
        if isinstance(arg, exp.Distinct):
            distinct = True
            args += arg.expressions
        else:
            args.append(arg)
    if any(isinstance(arg, exp.Tuple) for arg in args):
        raise UnsupportedQuery("an aggregate of a row is not supported in a view", hint="Aggregate one value.")
    return AggregateCall(node, function, tuple(args), distinct, order, where)


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    parts = [node.args.get("this"), *node.expressions, node.args.get("expression"), node.args.get("separator")]
    if isinstance(node, exp.Anonymous):
        parts = node.expressions
    return [part for part in parts if isinstance(part, exp.Expr)]
