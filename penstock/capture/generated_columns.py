"""Generated columns that the server does not send: all before 18, those that are not stored since.

A table that has one is refused unless the user leaves such columns out: all by `generated_columns="leave_out"`, or one
table's by its column list. They are then no part of the table here, neither of its copy nor of what is compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.capture.config import Generated
from penstock.errors import NotYet

if TYPE_CHECKING:
    from penstock.capture.discover import SourceTable

_KINDS, _STORED = 120000, 180000  # pg_attribute tells of them, and stored ones are sent


def sent(version: int) -> str:
    """SQL: whether column `a` of pg_attribute is in the WAL of a server of this version."""
    if version < _KINDS:
        return "true"
    return "a.attgenerated <> 'v'" if version >= _STORED else "a.attgenerated = ''"


def stored(version: int) -> str:
    """SQL: whether column `a` of pg_attribute is generated, and sent."""
    return "a.attgenerated = 's'" if version >= _STORED else "false"


def check_left_out(tables: Iterable[SourceTable], policy: Generated) -> None:
    for table in tables:
        if table.unsent and policy == "refuse":
            raise NotYet(
                f"capturing {table.name}.{table.unsent[0]}, a generated column this server does not replicate,",
                hint="Capture the table without such columns, generated_columns='leave_out', or leave it out. "
                "PostgreSQL 18 and later replicate STORED generated columns.",
            )
