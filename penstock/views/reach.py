"""Which rows of a state a change can reach at all: those that an equi-join or a group ties to rows that are known.

A state that is used only beside equal columns of something small need not be read whole. `reach` says, per read of a
delta program, the columns and whose values they must equal; whatever the reads contain, rows that match none of them
make no difference to any output. A read with one use that is not tied like that is not listed: it is needed whole.

Of a state whose rows are only numbered up to a limit, the first ones matter (`top_rows.py`), and those touched.

Only plain columns of one type are followed, through filters, projections, unions, joins and groups; an expression, or
types that compare by more than their bytes (floats, blank-padded text), ends the trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from penstock.relation.schema import Column
from penstock.views.algebra import (
    Empty,
    Expand,
    Filter,
    Group,
    Join,
    Leaf,
    Negate,
    Net,
    Node,
    Project,
    Read,
    Repeat,
    SemiJoin,
    Shift,
    UnionAll,
    Weigh,
    Window,
    inputs,
    outputs,
)  # fmt: skip
from penstock.views.expr import Call, Col, Expr, kind
from penstock.views.top_rows import First, limits, top

_EXACT = frozenset({"bool", "int", "oid", "numeric", "text", "uuid", "date", "timestamp", "timestamptz"})


@dataclass(frozen=True)
class Match:
    """A row is needed where its `columns` equal `by_columns` of some row of `by`; NULL equals NULL where `nulls`."""

    columns: tuple[str, ...]
    by: Read
    by_columns: tuple[str, ...]
    nulls: bool = False

    def implied_by(self, other: Match) -> bool:
        """Whether every row that `other` needs is needed by this one already."""
        own, its = (set(zip(one.columns, one.by_columns, strict=True)) for one in (self, other))
        return self.by == other.by and own < its and self.nulls >= other.nulls


@dataclass(frozen=True)
class Reach:
    """The rows of `read` that matter: those with one of the `matches`, and the `first` ones; none at all where there
    are neither."""

    read: Read
    matches: tuple[Match, ...]
    first: tuple[First, ...] = ()


@dataclass(frozen=True)
class _Origin:
    """Where a value comes from: columns of a row of a read."""

    read: Read
    columns: tuple[Column, ...]


Origins = frozenset[_Origin]  # each row has its values from one of them


@dataclass(frozen=True)
class _Bound:
    """Of a node's rows only those matter whose `columns` equal a value of the origins."""

    columns: tuple[str, ...]
    origins: Origins
    nulls: bool


def reach(roots: Iterable[Node]) -> tuple[Reach, ...]:
    """In an order such that each match is by a delta or by a read that stands earlier."""
    found = _Uses()
    for root in roots:
        found.visit(root, ())
    return _ordered(found.matches, found.first)


def _ordered(
    uses: Mapping[Read, Sequence[Sequence[frozenset[Match]]]], first: Mapping[Read, AbstractSet[First]]
) -> tuple[Reach, ...]:
    """A read that is only tied to reads that are needed whole is needed whole too."""
    settled: dict[Read, Reach] = {}
    while True:
        size = len(settled)
        for read, each in uses.items():
            if read not in settled and (matches := _chosen(each, settled)) is not None:
                firsts = tuple(sorted(first.get(read, ()), key=repr))
                settled[read] = Reach(read, tuple(sorted(_widest(matches), key=repr)), firsts)
        if len(settled) == size:
            return tuple(settled.values())


def _chosen(uses: Sequence[Sequence[frozenset[Match]]], known: Mapping[Read, Reach]) -> frozenset[Match] | None:
    """For every use one of its alternatives, all together; None if a use has no alternative by what is known."""
    whole = frozenset[Match]()
    for alternatives in uses:
        usable = [one for one in alternatives if all(m.by.kind == "delta" or m.by in known for m in one)]
        if not usable:
            return None
        whole |= min(usable, key=_preferred)
    return whole


def _widest(matches: AbstractSet[Match]) -> list[Match]:
    """Without those whose rows another one has too, which asks for some of the same columns to be equal."""
    return [one for one in matches if not any(other.implied_by(one) for other in matches if other != one)]


def _preferred(matches: AbstractSet[Match]) -> tuple[bool, int, int, str]:
    """By changes only before by states, by many columns before by few, by few reads before by many."""
    columns = min((len(one.columns) for one in matches), default=0)
    return any(one.by.kind != "delta" for one in matches), -columns, len(matches), repr(matches)


class _Uses:
    """Walks down from the outputs; `matches` gathers, per read and use, the alternatives that bound it."""

    def __init__(self) -> None:
        self.matches: dict[Read, list[tuple[frozenset[Match], ...]]] = {}
        self.first: dict[Read, set[First]] = {}
        self._trace = _Trace()
        self._seen: set[tuple[int, frozenset[_Bound]]] = set()

    def visit(self, node: Node, bounds: tuple[_Bound, ...]) -> None:
        if (id(node), frozenset(bounds)) in self._seen:
            return
        self._seen.add((id(node), frozenset(bounds)))
        match node:
            case Leaf():
                self._use(node, bounds)
            case Filter():
                self._below_filter(node.input, bounds, limits(node.predicates))
            case Weigh() | Negate() | Net() | Repeat():
                self.visit(node.input, bounds)
            case Window():  # a partition is needed as a whole
                whole = set(_plain([e for e in node.partition if isinstance(e, Col)]) or ())
                self.visit(node.input, tuple(bound for bound in bounds if set(bound.columns) <= whole))
            case Expand():
                below = _names(node.input)
                self.visit(node.input, tuple(bound for bound in bounds if set(bound.columns) <= below))
            case UnionAll():
                for child in node.inputs:
                    self.visit(child, bounds)
            case Project():
                self.visit(node.input, _renamed(bounds, dict(node.items)))
            case Group():
                self.visit(node.input, _renamed(bounds, dict(node.keys)))
            case Join():
                self._join(node, bounds)
            case SemiJoin():
                own = self._trace.bounds(_both_plain(node.keys, node.by_keys), node.by, nulls=True)
                self.visit(node.input, (*bounds, *own))
                self.visit(node.by, ())
            case Shift():  # a group without a change is the same before and after
                keys = tuple(key.name for key in node.keys)
                kept = tuple(bound for bound in bounds if set(bound.columns) <= set(keys))
                own = self._trace.bounds({key: key for key in keys}, node.change, nulls=True)
                self.visit(node.state, (*kept, *own))
                self.visit(node.change, kept)
            case _:
                for child in inputs(node):
                    self.visit(child, ())

    def _below_filter(self, node: Node, bounds: tuple[_Bound, ...], limited: Mapping[str, int]) -> None:
        match node:
            case UnionAll():
                for child in node.inputs:
                    self._below_filter(child, bounds, limited)
            case Negate():
                self._below_filter(node.input, bounds, limited)
            case Window() if (found := top(node, limited)) is not None:
                self.first.setdefault(found.state.read, set()).add(found.first)
                self.matches.setdefault(found.state.read, [])
                if found.change is not None:
                    self.visit(found.change, ())
            case _:
                self.visit(node, bounds)

    def _use(self, node: Leaf, bounds: Iterable[_Bound]) -> None:
        if node.read.kind != "delta":
            alternatives = [found for bound in bounds if (found := _matches(node, bound)) is not None]
            self.matches.setdefault(node.read, []).append(tuple(alternatives))

    def _join(self, node: Join, bounds: tuple[_Bound, ...]) -> None:
        equal = _Equal(node.on)
        for child in node.inputs:
            own = _names(child)
            inherited = [
                _Bound(columns, bound.origins, bound.nulls)
                for bound in bounds
                if (columns := equal.among(bound.columns, own)) is not None
            ]
            tied = [bound for other in node.inputs if other is not child for bound in self._tied(child, other, equal)]
            self.visit(child, (*inherited, *tied))

    def _tied(self, child: Node, other: Node, equal: _Equal) -> list[_Bound]:
        """What a row of `other` that it joins says about a row of `child`."""
        theirs = _names(other)
        pairs = {c.name: found[0] for c in outputs(child) if (found := equal.among((c.name,), theirs)) is not None}
        return self._trace.bounds(pairs, other, nulls=equal.loose)


class _Trace:
    """From which reads the values of columns come."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[str, ...]], Origins | None] = {}

    def bounds(self, pairs: Mapping[str, str], by: Node, *, nulls: bool) -> list[_Bound]:
        """What equality with columns of `by` says: by all columns at once, and by each alone, because together they
        may come from a state where one of them also stands in a change."""
        whole = [tuple(pairs.items())] if pairs else []
        alone = [(pair,) for pair in pairs.items()] if len(pairs) > 1 else []
        return [
            _Bound(tuple(own for own, _ in chosen), found, nulls)
            for chosen in [*whole, *alone]
            if (found := self.origins(by, tuple(its for _, its in chosen))) is not None
        ]

    def origins(self, node: Node, columns: tuple[str, ...]) -> Origins | None:
        """Reads such that each row of `node` has its `columns`, together, from a row of one of them; None: unknown."""
        key = (id(node), columns)
        if key not in self._known:
            self._known[key] = self._of(node, columns)
        return self._known[key]

    def _of(self, node: Node, columns: tuple[str, ...]) -> Origins | None:
        match node:
            case Leaf():
                held = dict(node.columns)
                return frozenset({_Origin(node.read, tuple(held[name] for name in columns))})
            case Empty():
                return frozenset()
            case Filter() | Weigh() | Negate() | Net() | Repeat():
                return self.origins(node.input, columns)
            case UnionAll():
                return _together([self.origins(child, columns) for child in node.inputs])
            case Project():
                return self._through(node.input, columns, dict(node.items))
            case Group():
                return self._through(node.input, columns, dict(node.keys))
            case Window() | Expand():
                own = _names(node.input)
                return self.origins(node.input, columns) if set(columns) <= own else None
            case Join():
                equal = _Equal(node.on)
                found = [(child, equal.among(columns, _names(child))) for child in node.inputs]
                return _closest([self.origins(child, names) for child, names in found if names is not None])
            case SemiJoin():
                keys = dict(zip(_plain(node.keys) or (), node.by_keys, strict=False))
                return _closest([self.origins(node.input, columns), self._through(node.by, columns, keys)])
            case Shift():  # only groups of the change come out
                keys = {key.name: key for key in node.keys}
                return self._through(node.change, columns, keys)
            case _:
                return None

    def _through(self, node: Node, columns: tuple[str, ...], stands: Mapping[str, Expr]) -> Origins | None:
        names = _plain([stands[name] for name in columns]) if set(columns) <= set(stands) else None
        return None if names is None else self.origins(node, names)


class _Equal:
    """The columns that a join's conditions equate, directly or through each other; `loose`: also NULL with NULL."""

    def __init__(self, on: Sequence[Expr]) -> None:
        self._classes: list[set[str]] = []
        self.loose = False
        for condition in on:
            if isinstance(condition, Call) and condition.op == "compare" and condition.detail in ("=", "<=>"):
                names = _plain(condition.args)
                if names is not None:
                    self.loose |= condition.detail == "<=>"
                    self._add(set(names))

    def _add(self, names: set[str]) -> None:
        apart = [one for one in self._classes if not one & names]
        self._classes = [*apart, names.union(*(one for one in self._classes if one & names))]

    def among(self, columns: Sequence[str], own: set[str]) -> tuple[str, ...] | None:
        """Each column itself or an equal one out of `own`; None if one has none there."""
        found = []
        for name in columns:
            same = {name}.union(*(one for one in self._classes if name in one)) & own
            if not same:
                return None
            found.append(name if name in same else min(same))
        return tuple(found)


def _matches(node: Leaf, bound: _Bound) -> frozenset[Match] | None:
    held = dict(node.columns)
    own = tuple(held[name] for name in bound.columns)
    if not all(_alike(a, b) for origin in bound.origins for a, b in zip(own, origin.columns, strict=True)):
        return None
    names = tuple(column.name for column in own)
    return frozenset(
        Match(names, origin.read, tuple(column.name for column in origin.columns), bound.nulls)
        for origin in bound.origins
    )


def _alike(a: Column, b: Column) -> bool:
    """Values that are equal in SQL exactly where they are held alike."""
    return kind(a.computed) == kind(b.computed) and kind(a.computed) in _EXACT and a.spark == b.spark


def _renamed(bounds: Iterable[_Bound], stands: Mapping[str, Expr]) -> tuple[_Bound, ...]:
    """The bounds as the input has them; one on anything but plain columns of it is lost."""
    kept = []
    for bound in bounds:
        if set(bound.columns) <= set(stands):
            names = _plain([stands[name] for name in bound.columns])
            if names is not None:
                kept.append(_Bound(names, bound.origins, bound.nulls))
    return tuple(kept)


def _both_plain(left: Sequence[Expr], right: Sequence[Expr]) -> dict[str, str]:
    """Of the expressions that must be equal, those that are columns on both sides."""
    return {a.name: b.name for a, b in zip(left, right, strict=True) if isinstance(a, Col) and isinstance(b, Col)}


def _plain(exprs: Sequence[Expr]) -> tuple[str, ...] | None:
    names = tuple(expr.name for expr in exprs if isinstance(expr, Col))
    return names if len(names) == len(exprs) else None


def _together(found: Sequence[Origins | None]) -> Origins | None:
    whole = frozenset[_Origin]()
    for one in found:
        if one is None:
            return None
        whole |= one
    return whole


def _closest(found: Iterable[Origins | None]) -> Origins | None:
    """Of several answers, all true, the one by changes only, and by few."""
    known = [one for one in found if one is not None]
    return min(known, key=lambda one: (sum(o.read.kind != "delta" for o in one), len(one), repr(one)), default=None)


def _names(node: Node) -> set[str]:
    return {col.name for col in outputs(node)}
