"""How each read of a delta is answered, for people: from the changes, looked up, told by a key, or scanned."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.views import Read


@dataclass(frozen=True)
class Answer:
    """`rows` are in memory; None where Spark reads the files."""

    read: Read
    rows: int | None
    how: str

    @property
    def scanned(self) -> bool:
        return self.rows is None

    def __str__(self) -> str:
        return f"{self.read.kind} of {self.read.relation}: {self.how}"


def changed(read: Read, rows: int | None) -> Answer:
    return Answer(read, rows, "the changes, read by Spark" if rows is None else f"{rows:,} changed rows")


def looked_up(read: Read, columns: list[str], values: int, rows: int, told: int | None) -> Answer:
    """`told`: rows that a key says are among the changes, None where no key was used."""
    parts = (
        [f"{rows - (told or 0):,} rows looked up for {values:,} values of {' or '.join(columns)}"] if columns else []
    )
    parts += [f"{told:,} rows from the changes, where a key says all are"] if told is not None else []
    return Answer(read, rows, " and ".join(parts) or "no value asked for: nothing read")


def read_whole(read: Read, rows: int) -> Answer:
    return Answer(read, rows, f"all {rows:,} rows: they are few, and nothing ties them to the changes")


def first_of(read: Read, rows: int, among: int) -> Answer:
    return Answer(read, rows, f"{rows:,} of {among:,} rows: those that can be among the first, and those touched")


def scanned(read: Read, within: str, why: str) -> Answer:
    where = f"scanned where {within}" if within else "scanned whole"
    return Answer(read, None, f"{where}: {why}")
