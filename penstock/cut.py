"""Frontiers: one cut per source, the unit at which everything in penstock is consistent.

A cut is an LSN of one source such that every commit up to it is captured, whole, and none after it.
Frontiers are ordered point by point; two of them may be incomparable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from penstock.lsn import Lsn


class Frontier(Mapping[str, Lsn]):
    """An immutable map from source name to cut, written as JSON.

    >>> a, b = Frontier(shop=Lsn(10)), Frontier(shop=Lsn(12))
    >>> a <= b, b <= a, str(a)
    (True, False, '{"shop": "0/A"}')
    >>> Frontier.parse('{"shop": "0/A"}') == a
    True
    """

    __slots__ = ("_cuts",)

    def __init__(self, cuts: Mapping[str, int] | None = None, /, **more: int) -> None:
        merged = {**(cuts or {}), **more}
        self._cuts = {name: Lsn(merged[name]) for name in sorted(merged)}

    @classmethod
    def parse(cls, text: str) -> Frontier:
        return cls({name: Lsn.parse(cut) for name, cut in json.loads(text).items()})

    @classmethod
    def meet(cls, frontiers: Iterable[Frontier]) -> Frontier:
        """The greatest frontier that is at or before all of them, over the sources any of them names."""
        cuts: dict[str, Lsn] = {}
        for frontier in frontiers:
            for name, cut in frontier.items():
                cuts[name] = min(cut, cuts.get(name, cut))
        return cls(cuts)

    def only(self, sources: Iterable[str]) -> Frontier:
        return Frontier({name: self._cuts[name] for name in sources if name in self._cuts})

    def __getitem__(self, source: str) -> Lsn:
        return self._cuts[source]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cuts)

    def __len__(self) -> int:
        return len(self._cuts)

    def __le__(self, other: Frontier) -> bool:
        return all(name in other and cut <= other[name] for name, cut in self.items())

    def __lt__(self, other: Frontier) -> bool:
        return self <= other and self != other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frontier) and self._cuts == other._cuts

    def __hash__(self) -> int:
        return hash(tuple(self._cuts.items()))

    def __str__(self) -> str:
        return json.dumps({name: str(cut) for name, cut in self.items()})

    def __repr__(self) -> str:
        return f"Frontier({ {name: str(cut) for name, cut in self.items()} })"
