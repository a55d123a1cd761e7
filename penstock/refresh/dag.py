"""What depends on what: cycles, orders and relatives among stream tables, by name.

`inputs` says what each stream table reads; names that are not in it are tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from penstock.errors import ConfigError

Inputs = Mapping[str, Iterable[str]]
Node = TypeVar("Node", bound=Hashable)


def upstream_first(wanted: Iterable[str], inputs: Inputs) -> list[str]:
    """The wanted views and all views they read, each after its inputs; tables are left out.

    >>> upstream_first(["c"], {"a": ["t"], "b": ["a"], "c": ["b", "a"], "d": ["a"]})
    ['a', 'b', 'c']
    """
    needed = reachable(wanted, inputs) & inputs.keys()
    graph = {name: [one for one in inputs[name] if one in needed] for name in sorted(needed)}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise _circle(error) from error


def check_acyclic(inputs: Inputs) -> None:
    """Raise if a stream table would read itself, naming the way.

    >>> check_acyclic({"a": ["c", "t"], "b": ["a"], "c": ["b"]})
    Traceback (most recent call last):
    penstock.errors.ConfigError: stream tables depend on each other in a circle: a → c → b → a
    Hint: Let one of them read something else.
    """
    try:
        TopologicalSorter({name: sorted(inputs[name]) for name in sorted(inputs)}).prepare()
    except CycleError as error:
        raise _circle(error) from error


def _circle(error: CycleError) -> ConfigError:
    way = list(reversed(error.args[1]))[:-1]
    first = way.index(min(way))
    names = [*way[first:], *way[:first], way[first]]
    return ConfigError(
        f"stream tables depend on each other in a circle: {' → '.join(names)}",
        hint="Let one of them read something else.",
    )


def reachable(start: Iterable[Node], ways: Mapping[Node, Iterable[Node]]) -> set[Node]:
    """Those to start from and all that can be reached from them.

    >>> sorted(reachable(["c"], {"c": ["b"], "b": ["t"], "d": ["t"]}))
    ['b', 'c', 't']
    """
    found: set[Node] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(ways.get(name, ()))
    return found


def readers(inputs: Inputs) -> dict[str, list[str]]:
    """Who reads each name."""
    found: dict[str, list[str]] = {}
    for reader, read in inputs.items():
        for one in read:
            found.setdefault(one, []).append(reader)
    return found


def downstream_of(names: Iterable[str], inputs: Inputs) -> set[str]:
    """All that read these, directly or through others.

    >>> sorted(downstream_of(["a"], {"a": ["t"], "b": ["a"], "c": ["b", "t"], "d": ["t"]}))
    ['b', 'c']
    """
    start = set(names)
    return reachable(start, readers(inputs)) - start


def independent(names: Iterable[str], inputs: Inputs) -> list[list[str]]:
    """The wanted views in groups that share no view, so that each group can be refreshed by itself.

    >>> independent(["c", "d", "e"], {"a": ["t"], "c": ["a"], "d": ["t"], "e": ["a", "t"]})
    [['c', 'e'], ['d']]
    """
    groups: list[tuple[list[str], set[str]]] = []
    for name in names:
        needs = reachable([name], inputs) & inputs.keys()
        touched = [group for group in groups if group[1] & needs]
        merged = [one for group in touched for one in group[0]]
        for group in touched:
            needs |= group[1]
        groups = [group for group in groups if group not in touched] + [([*merged, name], needs)]
    return sorted(group[0] for group in groups)
