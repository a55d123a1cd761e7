"""A view is a tree of bag operators; a change to it is a tree of the same operators over Z-sets.

Every column of the tree has a name of its own, so inputs of a join never clash. In a change, rows carry an implicit
weight: filter and project keep it, join multiplies it, union all adds. `rows` and grouped results have weight 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from penstock.relation.schema import Column, Schema
from penstock.relation.types import PgType
from penstock.views.expr import Call, Col, Expr

Form = Literal["delta", "before", "after"]
Kind = Literal["delta", "before", "after", "rows", "state", "terms", "part", "part_rows"]


@dataclass(frozen=True)
class Relation:
    """What a query names: a source table or a stream table, by its canonical name."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class Read:
    """One relation in one of the forms the lake can give: see `Program.reads`."""

    kind: Kind
    relation: str
    forms: tuple[Form, ...] = ()  # of `terms`: what each term reads


@dataclass(frozen=True)
class Ordering:
    """One item of an aggregate's ORDER BY."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class Measure:
    """What a group remembers: `rows` and `nonnull` count, `sum` adds exactly, `fsum` adds floats, `min`, `max`; any
    other `how` is an aggregate function computed from the group's rows, of `arg` and `more`."""

    name: str
    how: str
    arg: Expr | None
    column: Column  # the state column that holds it
    distinct: bool = False
    more: tuple[Expr, ...] = ()
    order: tuple[Ordering, ...] = ()
    where: Expr | None = None  # FILTER, where it cannot be said by a NULL
    detail: str = ""  # a constant that chooses among its forms

    @property
    def linear(self) -> bool:
        """True where the new value is the old one plus the value of the change."""
        return self.how in ("rows", "nonnull", "sum") and not self.distinct

    @property
    def is_extreme(self) -> bool:
        return self.how in ("min", "max")

    @property
    def by_row(self) -> bool:
        """True where a row that is there twice must be given twice: a weight on it does not tell the same."""
        return not self.distinct and self.how not in _WEIGHED

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """Every expression it reads."""
        own = (self.arg, *self.more, *(item.expr for item in self.order), self.where)
        return tuple(expr for expr in own if expr is not None)

    def over(self, step: Callable[[Expr], Expr]) -> Measure:
        """The same measure of other expressions."""
        return replace(
            self,
            arg=self.arg and step(self.arg),
            more=tuple(step(expr) for expr in self.more),
            order=tuple(replace(item, expr=step(item.expr)) for item in self.order),
            where=self.where and step(self.where),
        )


_WEIGHED = frozenset({"rows", "nonnull", "sum", "fsum", "min", "max", "bit_and", "bit_or"})


# The operators of a query ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    relation: Relation
    columns: tuple[tuple[str, Column], ...]  # name in the tree, column of the relation
    alias: str = ""


@dataclass(frozen=True)
class Constants:
    """Rows that are written in the query: VALUES, or the one row of a SELECT without FROM."""

    columns: tuple[tuple[str, Column], ...]
    rows: tuple[tuple[Expr, ...], ...]


@dataclass(frozen=True)
class Filter:
    input: Node
    predicates: tuple[Expr, ...]


@dataclass(frozen=True)
class Project:
    input: Node
    items: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Join:
    """An inner join of any number of inputs; the first is `small` where the rest should be probed with it."""

    inputs: tuple[Node, ...]
    on: tuple[Expr, ...]
    small: bool = False


@dataclass(frozen=True)
class OuterJoin:
    """An inner join and, with NULLs, the rows of `left` that met nothing; `full`: those of `right` too."""

    left: Node
    right: Node
    on: tuple[Expr, ...]
    full: bool = False


@dataclass(frozen=True)
class Exists:
    """Rows of `input` for which some row of `by` meets all of `on`; `negated`: for which none does."""

    input: Node
    by: Node
    on: tuple[Expr, ...]
    negated: bool = False


@dataclass(frozen=True)
class UnionAll:
    """Branches of equal column names, in order."""

    inputs: tuple[Node, ...]


@dataclass(frozen=True)
class Aggregate:
    """γ: one row per group with its measures, the first of which counts rows. No keys: always exactly one row."""

    input: Node
    keys: tuple[tuple[str, Expr], ...]
    measures: tuple[Measure, ...]


@dataclass(frozen=True)
class Weigh:
    """Each row `times` times, a number above 0."""

    input: Node
    times: Expr


@dataclass(frozen=True)
class Frame:
    """The rows around the current one that a window function sees: each end a place and, of a number, a direction."""

    how: str  # ROWS or RANGE
    start: tuple[str, str]
    end: tuple[str, str]


@dataclass(frozen=True)
class WindowFunction:
    """`ties`: rows that are equal in `order` are taken in one order all the same, by all their columns."""

    name: str
    op: str
    args: tuple[Expr, ...]
    order: tuple[Ordering, ...]
    frame: Frame | None
    ties: bool
    pg: PgType
    spark: str
    nullable: bool = True


@dataclass(frozen=True)
class Window:
    """Each row with the results of functions over the rows of its partition."""

    input: Node
    partition: tuple[Expr, ...]
    functions: tuple[WindowFunction, ...]


@dataclass(frozen=True)
class Expand:
    """Each row with each row that a function in FROM gives for it, in `columns`, the last its number where `numbered`;
    `outer`: with NULLs where it gives none."""

    input: Node
    function: str
    args: tuple[Expr, ...]
    columns: tuple[tuple[str, Column], ...]
    numbered: bool = False
    outer: bool = False


# What only changes are made of ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """The rows of a read, under the tree's names."""

    read: Read
    columns: tuple[tuple[str, Column], ...]


@dataclass(frozen=True)
class Empty:
    """No rows: what did not change."""

    columns: tuple[tuple[str, Column], ...]


@dataclass(frozen=True)
class Negate:
    input: Node


@dataclass(frozen=True)
class SemiJoin:
    """Rows of `input` whose keys equal, NULLs included, those of some row of `by`."""

    input: Node
    keys: tuple[Expr, ...]
    by: Node
    by_keys: tuple[Expr, ...]
    small: bool = True  # `by` may be broadcast


@dataclass(frozen=True)
class Net:
    """Equal rows added up; those of positive weight."""

    input: Node


@dataclass(frozen=True)
class Repeat:
    """Each row as often as its weight says, which is not negative; every row then counts once."""

    input: Node


@dataclass(frozen=True)
class Group:
    """γ over a Z-set: measures weighted by it. `keep`: all groups, those that `changed` something, those `present`."""

    input: Node
    keys: tuple[tuple[str, Expr], ...]
    measures: tuple[Measure, ...]
    keep: Literal["all", "changed", "present"] = "all"


@dataclass(frozen=True)
class Shift:
    """−old +new of each group: old adds up `state`'s rows, new adds `change` to it. A group of no rows is not there.

    Of extremes old is the state's and new the more extreme of both; `state` then has one row a group.
    """

    state: Node
    change: Node
    keys: tuple[Col, ...]
    measures: tuple[Measure, ...]


Node = (
    Scan | Constants | Filter | Project | Join | OuterJoin | Exists | UnionAll | Aggregate | Weigh | Window | Expand
    | Leaf | Empty | Negate | SemiJoin | Net | Repeat | Group | Shift
)  # fmt: skip


def _hash_once(computed: Callable[[object], int]) -> Callable[[object], int]:
    """Plans are looked up by node at every step, and the hash of a node is that of its whole tree: it is kept."""

    def hashed(self: object) -> int:
        kept = self.__dict__
        if "_hash" not in kept:
            kept["_hash"] = computed(self)
        return int(kept["_hash"])

    return hashed


for _node in (*get_args(Node), Call):
    _node.__hash__ = _hash_once(_node.__hash__)


def inputs(node: Node) -> tuple[Node, ...]:
    match node:
        case Scan() | Constants() | Leaf() | Empty():
            return ()
        case Filter() | Project() | Aggregate() | Weigh() | Window() | Expand() | Negate() | Net() | Repeat() | Group():
            return (node.input,)
        case Join() | UnionAll():
            return node.inputs
        case OuterJoin():
            return (node.left, node.right)
        case SemiJoin() | Exists():
            return (node.input, node.by)
        case Shift():
            return (node.state, node.change)


def walk(node: Node) -> Iterator[Node]:
    """The node and everything under it, inputs first, a part that is shared once."""
    return _walk(node, set())


def _walk(node: Node, seen: set[int]) -> Iterator[Node]:
    if id(node) not in seen:
        seen.add(id(node))
        for child in inputs(node):
            yield from _walk(child, seen)
        yield node


def outputs(node: Node) -> tuple[Col, ...]:
    """The columns a node gives, in order; worked out once per node, since changes share their parts."""
    known: tuple[Col, ...] | None = node.__dict__.get("_outputs")
    if known is None:
        known = node.__dict__["_outputs"] = _outputs(node)
    return known


def _outputs(node: Node) -> tuple[Col, ...]:
    match node:
        case Scan() | Constants() | Leaf() | Empty():
            return tuple(Col(name, c.pg, c.spark, c.nullable) for name, c in node.columns)
        case Filter() | Weigh() | Negate() | SemiJoin() | Exists() | Net() | Repeat():
            return outputs(node.input)
        case Project():
            return tuple(_named(name, expr) for name, expr in node.items)
        case Join():
            return tuple(column for child in node.inputs for column in outputs(child))
        case OuterJoin():
            left = outputs(node.left)
            return (*(optional(left) if node.full else left), *optional(outputs(node.right)))
        case UnionAll():
            branches = [outputs(child) for child in node.inputs]
            return tuple(
                Col(same[0].name, same[0].pg, same[0].spark, any(c.nullable for c in same))
                for same in zip(*branches, strict=True)
            )
        case Aggregate() | Group():
            return tuple(_named(n, e) for n, e in node.keys) + tuple(measured(m) for m in node.measures)
        case Window():
            given = tuple(Col(f.name, f.pg, f.spark, f.nullable) for f in node.functions)
            return (*outputs(node.input), *given)
        case Expand():
            return (*outputs(node.input), *(Col(name, c.pg, c.spark) for name, c in node.columns))
        case Shift():
            return node.keys + tuple(measured(m) for m in node.measures)


def optional(columns: Iterable[Col]) -> tuple[Col, ...]:
    """The columns where there may be no row to take them from."""
    return tuple(replace(col, nullable=True) for col in columns)


def measured(measure: Measure) -> Col:
    column = measure.column
    return Col(measure.name, column.pg, column.spark, column.nullable)


def _named(name: str, expr: Expr) -> Col:
    return Col(name, expr.pg, expr.spark, expr.nullable if isinstance(expr, Col) else True)


def scans(node: Node) -> tuple[Scan, ...]:
    return tuple(found for found in walk(node) if isinstance(found, Scan))
