"""The statements as values: what was asked for, apart from how it was written and how it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Select:
    """A query over relations, in Spark SQL."""

    query: str


@dataclass(frozen=True)
class CreateStreamTable:
    """`settings` are keywords of `create_stream_table`; `publish` is a pace of publishing."""

    name: str
    query: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    publish: str | None = None
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterStreamTable:
    """`settings` are keywords of `alter_stream_table`."""

    name: str
    settings: Mapping[str, Any]
    publish: str | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class DropStreamTable:
    names: tuple[str, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RefreshStreamTable:
    """All of them if none is named; `full` computes it anew."""

    name: str | None
    full: bool = False


@dataclass(frozen=True)
class CreateSource:
    """`options` as they are written, with dotted names; `columns` are those that the table must have, with types."""

    name: str
    options: Mapping[str, str] = field(repr=False)  # may hold a password
    columns: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropSource:
    name: str
    if_exists: bool = False
    cascade: bool = False
    force: bool = False


@dataclass(frozen=True)
class DescribeConnector:
    """Its options; or, with options, the columns of the tables that they name."""

    connector: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a password


Listed = Literal[
    "STREAM TABLES", "TABLES", "SOURCES", "HISTORY", "ALERTS", "DAG", "SETTINGS", "CONNECTORS",
]  # fmt: skip


@dataclass(frozen=True)
class Show:
    what: Listed
    name: str | None = None
    like: str | None = None
    limit: int = 100


@dataclass(frozen=True)
class ShowCreate:
    """The statement that makes it."""

    kind: Literal["STREAM TABLE", "SOURCE"]
    name: str


@dataclass(frozen=True)
class Describe:
    kind: Literal["STREAM TABLE", "SOURCE", "RELATION"]
    name: str


@dataclass(frozen=True)
class Explain:
    """A stream table that is there, or one that could be made."""

    of: str | CreateStreamTable


Statement = (
    Select
    | CreateStreamTable
    | AlterStreamTable
    | DropStreamTable
    | RefreshStreamTable
    | CreateSource
    | DropSource
    | DescribeConnector
    | Show
    | ShowCreate
    | Describe
    | Explain
)


@dataclass(frozen=True)
class Parsed:
    """A statement and where it begins."""

    statement: Statement
    line: int
    column: int
