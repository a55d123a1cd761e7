"""From files and what is there to steps: a pure function, once the queries are compiled.

Order: what stands in the way of a rebuild is dropped first, those that read before those that are read; then
everything is made or altered, inputs first; what is dropped because it was asked for goes last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.errors import ConfigError
from penstock.project.files import Definition
from penstock.project.plan import Cost, Kind, Step
from penstock.refresh.dag import downstream_of, upstream_first


@dataclass(frozen=True)
class Finding:
    """What became of one definition: the kind of step it takes by itself, and why."""

    definition: Definition
    kind: Kind
    reason: str
    reads: tuple[str, ...]
    cost: Cost | None = None


@dataclass(frozen=True)
class Here:
    """The stream tables that are there: what each reads, and which ones came from this project."""

    reads: Mapping[str, Sequence[str]]
    ours: Collection[str] = field(default=())


def steps(findings: Sequence[Finding], here: Here, *, drop: bool) -> list[Step]:
    wanted = {one.definition.name: one for one in findings}
    gone = sorted(name for name in here.ours if name in here.reads and name not in wanted)
    rebuilt = [name for name, one in wanted.items() if one.kind is Kind.REBUILD]
    in_the_way = {name for one in rebuilt for name in downstream_of([one], here.reads)}  # rebuilt ones among them
    _check_in_the_way(rebuilt, in_the_way, wanted, gone if drop else [], here)
    new_reads = {**{name: list(inputs) for name, inputs in here.reads.items() if name not in gone or not drop}}
    new_reads |= {name: list(one.reads) for name, one in wanted.items()}
    _check_dropped(gone if drop else [], new_reads)

    downstream_first = list(reversed(upstream_first(here.reads, here.reads)))
    found = [_first(name, wanted.get(name), rebuilt) for name in downstream_first if name in in_the_way]
    found += [_second(wanted[name], name in in_the_way) for name in upstream_first(wanted, new_reads) if name in wanted]
    found += [_gone(name, drop=drop) for name in downstream_first if name in gone and name not in in_the_way]
    return found


def _check_in_the_way(
    rebuilt: Sequence[str], in_the_way: Collection[str], wanted: Mapping[str, Finding], dropped: Collection[str],
    here: Here,
) -> None:  # fmt: skip
    for name in sorted(in_the_way):
        if name not in wanted and name not in dropped:
            above = next(one for one in rebuilt if name in downstream_of([one], here.reads))
            raise ConfigError(
                f"{wanted[above].definition.place}: stream table {above} gets other columns "
                f"({wanted[above].reason}), and {name}, which reads it, is not in the folder",
                hint=f"Keep the columns, add a file for {name}, or drop it first.",
            )


def _check_dropped(dropped: Sequence[str], reads: Mapping[str, Sequence[str]]) -> None:
    for name in dropped:
        readers = [one for one, inputs in reads.items() if name in inputs]
        if readers:
            raise ConfigError(
                f"stream table {name} has no file any more, and {', '.join(sorted(readers))} reads it",
                hint="Change what reads it first, or put its file back.",
            )


def _first(name: str, finding: Finding | None, rebuilt: Sequence[str]) -> Step:
    if finding is None:
        return _gone(name, drop=True)
    return Step(Kind.DROP, name, f"it reads {', '.join(rebuilt)}, which gets other columns; made again below",
                finding.definition)  # fmt: skip


def _second(finding: Finding, was_dropped: bool) -> Step:
    if was_dropped:
        return Step(Kind.CREATE, finding.definition.name, "dropped above", finding.definition, finding.cost)
    cost = None if finding.kind in (Kind.ALTER, Kind.KEEP) else finding.cost
    return Step(finding.kind, finding.definition.name, finding.reason, finding.definition, cost)


def _gone(name: str, *, drop: bool) -> Step:
    if drop:
        return Step(Kind.DROP, name, "its file is gone")
    return Step(Kind.LEAVE, name, "its file is gone; --drop removes it")
