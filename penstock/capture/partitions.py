"""Partitioned tables: captured as one table under the root's name, or as one table per leaf.

As a root, the rows of all leaves come under one name (`publish_via_partition_root`, PostgreSQL 13 and later); before
that, and on request, each leaf is a table of its own. A root and one of its partitions are never captured together:
the server would give every change under the root's name alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from penstock.errors import ConfigError, UnsafeTable
from penstock.relation.schema import ReplicaIdentity

VIA_ROOT = 130000


class Entry(Protocol):
    """A relation as the server's catalog has it; `parent` is the OID of what it is a partition of, or 0."""

    @property
    def oid(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def parent(self) -> int: ...
    @property
    def persistence(self) -> str: ...
    @property
    def identity(self) -> ReplicaIdentity: ...
    @property
    def name(self) -> str: ...
    @property
    def spelled(self) -> str: ...


E = TypeVar("E", bound=Entry)


def of_schema(entries: Iterable[E], *, as_root: bool) -> list[E]:
    """What `schema.*` stands for: roots without their partitions, or leaves without what they are partitions of."""
    return [one for one in entries if (not one.parent if as_root else one.kind != "p")]


def leaves_of(entries: Sequence[E], root: E) -> list[E]:
    """The tables that hold the root's rows."""
    found: list[E] = []
    for child in (one for one in entries if one.parent == root.oid):
        found += leaves_of(entries, child) if child.kind == "p" else [child]
    return found


def check_roots(entries: Sequence[E], chosen: Mapping[str, E]) -> None:
    """Every leaf must log what the root is announced with, and must not be asked for beside its root."""
    by_oid = {one.oid: one for one in entries}
    asked = {one.oid for one in chosen.values()}
    for one in chosen.values():
        parent = by_oid.get(one.parent)
        while parent is not None:
            if parent.oid in asked:
                raise ConfigError(
                    f"{one.name} is a partition of {parent.name}, which is captured too",
                    hint=f"Leave {one.name} out, or capture partitions as tables: partitions='leaves'.",
                )
            parent = by_oid.get(parent.parent)
        if one.kind == "p":
            _check_leaves(one, leaves_of(entries, one))


def _check_leaves(root: E, leaves: Sequence[E]) -> None:
    for leaf in leaves:
        if leaf.kind != "r":
            raise UnsafeTable(
                f"{leaf.name}, a partition of {root.name}, is not a plain table: its changes are not logged here",
                hint=f"Leave {root.name} out, or detach that partition.",
            )
        if leaf.persistence != "p":
            raise UnsafeTable(
                f"{leaf.name}, a partition of {root.name}, is not logged, so the WAL does not have its changes",
                hint=f"Run ALTER TABLE {leaf.spelled} SET LOGGED, or leave {root.name} out.",
            )
        if leaf.identity is not root.identity:
            raise UnsafeTable(
                f"{leaf.name} has another REPLICA IDENTITY than {root.name}, whose partition it is",
                hint=f"Run ALTER TABLE {leaf.spelled} REPLICA IDENTITY "
                f"{'FULL' if root.identity is ReplicaIdentity.FULL else 'DEFAULT'}; it is not inherited.",
            )
