"""The graph of stream tables as text: those that nobody reads first, and under each one what it reads.

What was drawn before is named again without what is below it, so that a diamond is drawn once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from penstock.refresh.monitor import Dependency, StreamTableInfo


def dag_text(dependencies: Iterable[Dependency], tables: Sequence[StreamTableInfo]) -> str:
    reads: dict[str, list[str]] = {table.name: [] for table in tables}
    for one in dependencies:
        reads[one.stream_table].append(one.reads)
    notes = {table.name: _note(table) for table in tables}
    return "\n".join(drawn(reads, notes)) or "No stream tables yet."


def _note(table: StreamTableInfo) -> str:
    """
    `AUTO every 5m, ACTIVE`
    """
    return f"{table.mode}, {table.schedule or 'downstream'}, {table.status}"


def drawn(reads: Mapping[str, Sequence[str]], notes: Mapping[str, str]) -> Iterator[str]:
    """
    >>> print("\\n".join(drawn({"a": ["t"], "b": ["a", "u"], "c": ["a"]}, {"a": "AUTO"})))
    b
    ├── a  [AUTO]
    │   └── t
    └── u
    c
    └── a  [AUTO] (above)
    """
    below = {name for inputs in reads.values() for name in inputs}
    known: set[str] = set()
    for top in sorted(set(reads) - below):
        yield from _branch(top, reads, notes, known, "", "")


def _branch(
    name: str, reads: Mapping[str, Sequence[str]], notes: Mapping[str, str], known: set[str], first: str, rest: str
) -> Iterator[str]:
    note = f"  [{notes[name]}]" if name in notes else ""
    repeated = name in known and bool(reads.get(name))
    yield f"{first}{name}{note}{' (above)' if repeated else ''}"
    known.add(name)
    inputs = [] if repeated else sorted(reads.get(name, ()))
    for number, one in enumerate(inputs, 1):
        last = number == len(inputs)
        yield from _branch(
            one, reads, notes, known, rest + ("└── " if last else "├── "), rest + ("    " if last else "│   ")
        )
