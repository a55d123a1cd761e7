"""ORDER BY with LIMIT, and DISTINCT ON, are the first rows by number, in all or in each partition.

What is numbered is remembered where computing it again would mean joining again: then a refresh sorts what is
remembered, before and after. Rows that ORDER BY calls equal are taken in the order of all their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import UnsupportedQuery
from penstock.views.algebra import (
    Aggregate,
    Exists,
    Filter,
    Join,
    Node,
    Ordering,
    OuterJoin,
    Project,
    Weigh,
    Window,
    WindowFunction,
    inputs,
    measured,
    outputs,
)
from penstock.views.distinct import counted
from penstock.views.expr import BOOL, INT8, Col, Expr, call, kind, lit
from penstock.views.keys import keys_of

Name = Callable[..., str]


@dataclass(frozen=True)
class Limit:
    """`count` rows (None: all) after the first `offset`; `ties`: and those equal to the last of them."""

    count: int | None
    offset: int = 0
    ties: bool = False


def limit_of(tree: exp.Expr) -> Limit | None:
    """What LIMIT, OFFSET and FETCH of a query say; None if there is none."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if limit is None and offset is None:
        return None
    skipped = 0 if offset is None else _number(offset.expression, "OFFSET")
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        if options is not None and options.args.get("percent"):
            raise UnsupportedQuery("FETCH with PERCENT is not supported in a view", hint="Give a number of rows.")
        ties = bool(options is not None and options.args.get("with_ties"))
        count = 1 if limit.args.get("count") is None else _number(limit.args["count"], "FETCH")
        return Limit(count, skipped, ties)
    return Limit(None if limit is None else _number(limit.expression, "LIMIT"), skipped)


def _number(tree: exp.Expr, what: str) -> int:
    if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit():
        return int(tree.name)
    raise UnsupportedQuery(f"{what} of anything but a number is not supported in a view", hint="Write the number.")


def limited(node: Node, partition: Sequence[Expr], order: Sequence[Ordering], limit: Limit, name: Name) -> Node:
    """The rows of each partition that the limit leaves, beside their numbers."""
    node = _remembered(node)
    number = WindowFunction(name("", "place"), "row_number", (), tuple(order), None, True, INT8, "bigint", False)
    rank = WindowFunction(name("", "rank"), "rank", (), tuple(order), None, False, INT8, "bigint", False)
    numbered = Window(node, tuple(partition), (number, rank) if limit.ties else (number,))
    place = Col(number.name, INT8, "bigint", False)
    kept: list[Expr] = []
    if limit.offset:
        kept.append(_compare(">", place, limit.offset))
    if limit.count == 1 and not limit.offset and not limit.ties:
        kept.append(_compare("=", place, 1))
    elif limit.count is not None:
        last = Col(rank.name, INT8, "bigint", False) if limit.ties else place
        kept.append(_compare("<=", last, limit.offset + limit.count))
    return Filter(numbered, tuple(kept)) if kept else node


def _compare(sign: str, place: Expr, number: int) -> Expr:
    return call("compare", place, lit(number, INT8), pg=BOOL, detail=sign)


def _remembered(node: Node) -> Node:
    """The same rows, held as counted groups of all columns where they come from a join."""
    own = tuple((col.name, col) for col in outputs(node))
    if not _joins(node) or any(kind(col.pg) == "opaque" and not col.pg.equal_as_held for _, col in own):
        return node
    groups = counted(node, own)
    if keys_of(node):
        return Project(groups, own)
    return Project(Weigh(groups, measured(groups.measures[0])), own)


def _joins(node: Node) -> bool:
    if isinstance(node, (Join, OuterJoin, Exists)):
        return True
    return not isinstance(node, Aggregate) and any(_joins(child) for child in inputs(node))
