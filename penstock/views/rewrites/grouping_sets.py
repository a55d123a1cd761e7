"""γ over GROUPING SETS (s₁, s₂, …) = γ[s₁] ∪ γ[s₂] ∪ …, where a key that is not in the set is NULL.

ROLLUP and CUBE are short for such sets; several of them in one GROUP BY are combined, each with each. grouping(a, b) is
a constant of each branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

from sqlglot import exp

from penstock.views.algebra import Aggregate, Node, Project, UnionAll, measured
from penstock.views.expr import INT4, Col, Expr, Lit, lit

Keys = tuple[exp.Expr, ...]


def sets_of(group: exp.Expr | None) -> list[Keys]:
    """The keys of each set, in the order written.

    >>> from sqlglot import parse_one
    >>> group = parse_one("SELECT 1 FROM t GROUP BY a, ROLLUP (b, c)", read="postgres").args["group"]
    >>> [[key.sql() for key in keys] for keys in sets_of(group)]
    [['a', 'b', 'c'], ['a', 'b'], ['a']]
    """
    if group is None:
        return [()]
    parts = [_alternatives(element) for element in group.expressions]
    found = [tuple(dict.fromkeys(key for part in chosen for key in part)) for chosen in product(*parts)]
    if group.args.get("all") is False:  # GROUP BY DISTINCT
        return [keys for place, keys in enumerate(found) if set(keys) not in [set(k) for k in found[:place]]]
    return found


def _alternatives(element: exp.Expr) -> list[Keys]:
    if isinstance(element, exp.GroupingSets):
        return [keys for inner in element.expressions for keys in _alternatives(inner)]
    if isinstance(element, exp.Rollup):
        units = [_unit(part) for part in element.expressions]
        return [_joined(units[:size]) for size in range(len(units), -1, -1)]
    if isinstance(element, exp.Cube):
        units = [_unit(part) for part in element.expressions]
        return [_joined(some) for size in range(len(units), -1, -1) for some in combinations(units, size)]
    return [_unit(element)]


def _unit(part: exp.Expr) -> Keys:
    """What stays together: a key, or several in parentheses."""
    while isinstance(part, exp.Paren):
        part = part.this
    return tuple(key for inner in part.expressions for key in _unit(inner)) if isinstance(part, exp.Tuple) else (part,)


def _joined(units: Sequence[Keys]) -> Keys:
    return tuple(key for unit in units for key in unit)


def spread(
    whole: Aggregate, sets: Sequence[frozenset[str]], groupings: Mapping[str, Sequence[str]]
) -> tuple[Node, dict[str, Expr]]:
    """The aggregate of all keys as a union over sets of them, and what `groupings` (name → keys) are above it."""
    if len(sets) == 1:  # plain GROUP BY: nothing is ever left out
        return whole, dict.fromkeys(groupings, lit(0, INT4))
    branches = []
    for own in sets:
        each = replace(whole, keys=tuple((name, expr) for name, expr in whole.keys if name in own))
        keys = [(name, Col(name, e.pg, e.spark) if name in own else Lit(None, e.pg, e.spark)) for name, e in whole.keys]
        marks = [(name, lit(_mask(keys_of, own), INT4)) for name, keys_of in groupings.items()]
        branches.append(Project(each, (*keys, *((m.name, measured(m)) for m in whole.measures), *marks)))
    return UnionAll(tuple(branches)), {name: Col(name, INT4, "int") for name in groupings}


def _mask(keys: Sequence[str], own: frozenset[str]) -> int:
    """A bit for each key that is left out, the last key's lowest."""
    return sum(1 << place for place, key in enumerate(reversed(keys)) if key not in own)
