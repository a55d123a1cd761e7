"""What a statement answers: rows, a sentence, or both. A SELECT answers with a Spark DataFrame instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """`rows` under `columns`; `message` says what was done, `properties` what else there is to know.

    >>> Answer(("name", "rows"), (("revenue", 3),)).dicts
    [{'name': 'revenue', 'rows': 3}]
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    message: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return True  # an answer without rows is an answer
