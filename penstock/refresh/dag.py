"""Which stream tables a refresh needs, upstream first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from penstock.errors import ConfigError


def upstream_first(wanted: Iterable[str], inputs: Mapping[str, Iterable[str]]) -> list[str]:
    """The wanted views and all views they read, each after its inputs; tables are left out.

    >>> upstream_first(["c"], {"a": ["t"], "b": ["a"], "c": ["b", "a"], "d": ["a"]})
    ['a', 'b', 'c']
    """
    needed: set[str] = set()
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in needed and name in inputs:
            needed.add(name)
            waiting.extend(inputs[name])
    graph = {name: [one for one in inputs[name] if one in needed] for name in sorted(needed)}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle = " → ".join(error.args[1])
        raise ConfigError(f"stream tables depend on each other in a circle: {cycle}") from error
