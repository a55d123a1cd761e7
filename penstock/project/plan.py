"""A plan: what has to be done to stream tables, in order, each step with its reason and what it will cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.project.files import Definition


class Kind(StrEnum):
    CREATE = "create"
    ALTER = "alter"  # schedule, mode and the like: nothing is computed for it
    REINITIALIZE = "reinitialize"  # another query over the same columns: computed anew at its next refresh
    REBUILD = "rebuild"  # other columns: empty until its next refresh
    DROP = "drop"
    KEEP = "keep"  # as its file says already
    LEAVE = "leave"  # its file is gone, and dropping was not asked for


_MARKS = {
    Kind.CREATE: "+",
    Kind.ALTER: "~",
    Kind.REINITIALIZE: "~",
    Kind.REBUILD: "±",
    Kind.DROP: "-",
    Kind.KEEP: " ",
    Kind.LEAVE: "?",
}


@dataclass(frozen=True)
class Cost:
    """What a step makes the next refresh read; `seconds` is what computing all of it took the last time."""

    rows: int
    inputs: int
    seconds: float | None = None

    def __str__(self) -> str:
        """
        >>> str(Cost(1200, 2, 3.21)), str(Cost(1, 1))
        ('reads 1,200 rows of 2 inputs, last time in 3.2 s', 'reads 1 row of 1 input')
        """
        rows = f"{self.rows:,} row{'' if self.rows == 1 else 's'}"
        inputs = f"{self.inputs} input{'' if self.inputs == 1 else 's'}"
        last = "" if self.seconds is None else f", last time in {self.seconds:.1f} s"
        return f"reads {rows} of {inputs}{last}"


@dataclass(frozen=True)
class Step:
    kind: Kind
    name: str
    reason: str
    definition: Definition | None = None
    cost: Cost | None = None

    def __str__(self) -> str:
        where = f" ({self.definition.path})" if self.definition else ""
        cost = f"; {self.cost}" if self.cost else ""
        return f"{_MARKS[self.kind]} {self.kind} {self.name}{where}: {self.reason}{cost}"


@dataclass(frozen=True)
class Plan:
    """The steps in the order in which they are done."""

    project: str
    steps: tuple[Step, ...]
    definitions: tuple[Definition, ...] = field(repr=False)

    @property
    def work(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind not in (Kind.KEEP, Kind.LEAVE))

    @property
    def nothing(self) -> bool:
        return not self.work

    def __str__(self) -> str:
        lines = [str(step) for step in self.steps if step.kind is not Kind.KEEP]
        return "\n".join([*lines, self.summary])

    @property
    def summary(self) -> str:
        counts = {kind: sum(step.kind is kind for step in self.steps) for kind in Kind}
        said = [f"{count} to {kind}" for kind, count in counts.items() if count]
        return f"Project {self.project}: {', '.join(said) or 'nothing to do'}."
