"""Window functions: what each needs, and when its answer depends on the order of equal rows.

Where it does, rows that ORDER BY calls equal are put into one order by all their columns. That is one of the answers
PostgreSQL may give, and the same rows always get the same one. Sums of floats depend on the order of adding and have
none, so they are refused; so are frames whose end is a group of equal rows, for functions that take one row of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.relation.types import PgType
from penstock.views import decimals
from penstock.views.algebra import Frame, Node, Ordering, Window, WindowFunction
from penstock.views.expr import FLOAT8, INT4, INT8, NUMERIC, Col, Expr, kind, lit
from penstock.views.expressions.arithmetic import arithmetic
from penstock.views.expressions.binder import refuse_types, refused
from penstock.views.expressions.comparison import check_comparable
from penstock.views.expressions.conditional import empty_or
from penstock.views.expressions.convert import common, convert, fix, plain
from penstock.views.subqueries import has_subquery

Bind = Callable[[exp.Expr], Expr]
Name = Callable[..., str]

_RANKS: dict[type[exp.Expr], str] = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}
_SHARES: dict[type[exp.Expr], str] = {exp.PercentRank: "percent_rank", exp.CumeDist: "cume_dist"}
_ROWS: dict[type[exp.Expr], str] = {
    exp.Lag: "lag", exp.Lead: "lead", exp.FirstValue: "first_value", exp.LastValue: "last_value",
    exp.NthValue: "nth_value",
}  # fmt: skip
_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Sum: "sum", exp.Avg: "avg", exp.Count: "count", exp.Min: "min", exp.Max: "max",
}  # fmt: skip
_OF_FRAME = ("first_value", "last_value", "nth_value", "sum", "avg", "count", "min", "max")
_WHOLE = Frame("ROWS", ("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING"))


def is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Window)


def parts(window: exp.Expr) -> list[exp.Expr]:
    """The expressions inside a window function that are computed of each row."""
    inside = window.this
    args = [inside.this, inside.args.get("default")] if not isinstance(inside, exp.Ntile) else []
    ordered = window.args["order"].expressions if window.args.get("order") else []
    found = [*args, *(window.args.get("partition_by") or []), *(one.this for one in ordered)]
    return [part for part in found if isinstance(part, exp.Expr) and not isinstance(part, exp.Star)]


def windowed(
    node: Node, windows: Mapping[str, exp.Expr], bind: Bind, types: Mapping[exp.Expr, PgType], name: Name
) -> tuple[Node, dict[str, Expr]]:
    """The rows with the window functions' results beside them: one operator for each way to partition."""
    groups: dict[tuple[Expr, ...], list[WindowFunction]] = {}
    answers: dict[str, Expr] = {}
    for place, window in windows.items():
        if any(has_subquery(part) for part in parts(window)):
            raise UnsupportedQuery("a subquery in a window function is not supported in a view", hint="Put it in FROM.")
        partition = tuple(bind(part) for part in window.args.get("partition_by") or [])
        check_comparable("PARTITION BY", partition, ordered=False)
        made = _Made(groups.setdefault(partition, []), _orders(window, bind), _frame(window), name)
        answers[place] = made.result(window.this, bind, types[window])
    for partition, functions in groups.items():
        node = Window(node, partition, tuple(functions))
    return node, answers


def ordered_by(expr: Expr, ordered: exp.Expr) -> Ordering:
    value = plain(expr)
    check_comparable("ORDER BY", (value,), ordered=True)
    return Ordering(value, bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first")))


def _orders(window: exp.Expr, bind: Bind) -> tuple[Ordering, ...]:
    order = window.args.get("order")
    return tuple(ordered_by(bind(one.this), one) for one in (order.expressions if order else []))


def _frame(window: exp.Expr) -> Frame | None:
    spec = window.args.get("spec")
    if spec is None:
        return None
    how = str(spec.args.get("kind") or "").upper()
    ends = [_end(spec, "start"), _end(spec, "end") if spec.args.get("end") else ("CURRENT ROW", "")]
    counted = any(where not in ("UNBOUNDED", "CURRENT ROW") for where, _ in ends)
    if spec.args.get("exclude") or how not in ("ROWS", "RANGE") or (how == "RANGE" and counted):
        raise UnsupportedQuery(
            f"the frame {spec.sql(dialect='postgres').upper()} is not supported in a view",
            hint="Use ROWS, or RANGE with UNBOUNDED and CURRENT ROW.",
        )
    return Frame(how, ends[0], ends[1])


def _end(spec: exp.Expr, which: str) -> tuple[str, str]:
    value, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "").upper()
    if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
        return value.name, side
    if isinstance(value, str):
        return value.upper(), side
    raise UnsupportedQuery("a frame is bounded by a constant number of rows", hint="Write the number.")


class _Made:
    """The functions of one partitioning; results are expressions over them."""

    def __init__(
        self, functions: list[WindowFunction], order: tuple[Ordering, ...], frame: Frame | None, name: Name
    ) -> None:
        self._functions, self._order, self._frame, self._name = functions, order, frame, name

    def result(self, call: exp.Expr, bind: Bind, pg: PgType) -> Expr:
        if type(call) in _RANKS:
            op = _RANKS[type(call)]
            return self._function(op, (), INT8, "bigint", ties=op == "row_number", nullable=False)
        if type(call) in _SHARES and not call.expressions:
            return self._function(_SHARES[type(call)], (), FLOAT8, "double", nullable=False)
        if isinstance(call, exp.Ntile):
            return self._function("ntile", (_number(call.this),), INT4, "int", ties=True)
        if type(call) in _ROWS:
            return self._row(call, bind, pg)
        if type(call) in _AGGREGATES:
            return self._aggregate(call, bind, pg)
        raise refused(call)

    def _row(self, call: exp.Expr, bind: Bind, pg: PgType) -> Expr:
        op = _ROWS[type(call)]
        value = plain(fix(bind(call.this), pg))
        offset = call.args.get("offset")
        args: tuple[Expr, ...] = (value, *([_number(offset)] if offset is not None else []))
        if call.args.get("default") is not None:
            value, default = common((value, bind(call.args["default"])), op, pg)
            args = (value, *(args[1:] or (lit(1, INT4),)), default)
        frame = self._frame
        if op in ("last_value", "nth_value") and self._order and _ends_with_peers(frame):
            raise UnsupportedQuery(
                f"{op}() over a frame that ends with the rows equal to the current one is not supported in a view",
                hint="Say ROWS BETWEEN … AND CURRENT ROW, or AND UNBOUNDED FOLLOWING.",
            )
        if op in _OF_FRAME and frame is not None and frame.how == "RANGE" and frame.start[0] == "CURRENT ROW":
            raise UnsupportedQuery(f"{op}() over RANGE from CURRENT ROW is not supported in a view", hint="Use ROWS.")
        return self._function(op, args, value.pg, value.spark, ties=True, whole=op != "first_value")

    def _aggregate(self, call: exp.Expr, bind: Bind, pg: PgType) -> Expr:
        op = _AGGREGATES[type(call)]
        if call.expressions or isinstance(call.this, exp.Distinct):
            raise refused(call)
        if op == "count":
            counted = () if call.this is None or isinstance(call.this, exp.Star) else (bind(call.this),)
            return self._function("count", counted, INT8, "bigint", nullable=False)
        arg = plain(fix(bind(call.this), pg))
        if op in ("min", "max"):
            check_comparable(op, (arg,), ordered=True)
            if kind(arg.pg) == "bool":
                raise refuse_types(op, (arg,))
            return self._function(op, (arg,), pg if kind(pg) == kind(arg.pg) else arg.pg, arg.spark)
        total = self._total(arg)
        if op == "sum":
            return total
        counted_args = self._function("count", (arg,), INT8, "bigint", nullable=False)
        return empty_or(arithmetic("div", total, counted_args, pg), counted_args, lit(0, INT4))

    def _total(self, arg: Expr) -> Expr:
        if kind(arg.pg) == "float":
            raise UnsupportedQuery(
                "sum or avg of floats over a window is not supported in a view: it depends on the order of adding",
                hint="Cast the argument to numeric(p, s).",
            )
        if kind(arg.pg) not in ("int", "numeric"):
            raise refuse_types("sum or avg", (arg,))
        if arg.spark in ("smallint", "int"):
            return self._function("sum", (arg,), INT8, "bigint")
        wide = decimals.name((decimals.MAX, decimals.decimal_of(arg.spark)[1]))
        return self._function("sum", (convert(arg, NUMERIC, wide),), NUMERIC, wide)

    def _function(
        self,
        op: str,
        args: tuple[Expr, ...],
        pg: PgType,
        spark: str,
        *,
        ties: bool = False,
        nullable: bool = True,
        whole: bool = False,
    ) -> Expr:
        frame = self._frame if op in _OF_FRAME else None
        ties = ties or (frame is not None and frame.how == "ROWS")
        if whole and op in _OF_FRAME and (frame is None or frame.how == "RANGE"):
            frame = _WHOLE  # nothing is ordered, or everything is in the frame
        for known in self._functions:
            if (known.op, known.args, known.order, known.frame, known.ties) == (op, args, self._order, frame, ties):
                return Col(known.name, known.pg, known.spark, known.nullable)
        made = WindowFunction(self._name("", op), op, args, self._order, frame, ties, pg, spark, nullable)
        self._functions.append(made)
        return Col(made.name, pg, spark, nullable)


def _ends_with_peers(frame: Frame | None) -> bool:
    return frame is None or (frame.how == "RANGE" and frame.end[0] == "CURRENT ROW")


def _number(tree: exp.Expr | None) -> Expr:
    if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit():
        return lit(int(tree.name), INT4)
    raise UnsupportedQuery("a window function's number must be a constant", hint="Write the number.")
