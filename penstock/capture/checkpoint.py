"""Where a source's reader stands: the end of a commit (or a keepalive) up to which everything was delivered.

It also names the server, the database and the slot, so that a position is never used on another one's log.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.capture.forms import Forms
from penstock.capture.publication import Membership
from penstock.errors import ConfigError
from penstock.lsn import Lsn


@dataclass(frozen=True)
class Mark:
    """The last transaction that gave rows: its end, and its time in microseconds since 1970 (None for the copy)."""

    lsn: Lsn
    time: int | None


@dataclass(frozen=True)
class Checkpoint:
    """A position in one server's log. LSN 0 means that the initial copy has not been delivered whole.

    `mark` tells this log from another one of the same server.
    """

    system_identifier: str
    timeline: int
    database: str
    slot: str
    lsn: Lsn
    mark: Mark | None = None
    publication: int = 0  # its OID: one that was made anew under the same name has missed changes; 0 is not known
    forms: Forms | None = field(default=None, hash=False)  # of the columns that are not in their native one
    publication_version: str = ""  # as in `Membership`, like its entries
    entries: Mapping[int, tuple[int, ...]] = field(default_factory=dict, hash=False)

    @property
    def membership(self) -> Membership:
        return Membership(self.publication, self.publication_version, self.entries)

    def published_by(self, membership: Membership | None) -> Checkpoint:
        """The same position, with what the publication gives; None is not known."""
        now = membership or Membership()
        return replace(self, publication=now.publication, publication_version=now.version, entries=dict(now.entries))

    def joined_by(self, tables: Collection[int]) -> Checkpoint:
        """The same position, from which tables (OIDs) are new: what gave them before does not matter."""
        kept = {table: entries for table, entries in self.entries.items() if table not in tables}
        return replace(self, entries=kept)

    def to_json(self) -> str:
        """
        >>> c = Checkpoint("7", 1, "shop", "s", Lsn(16), Mark(Lsn(8), 99), forms={"public.t.n": (1700, "string")})
        >>> c = c.published_by(Membership(16400, "751", {16388: (16401,)}))
        >>> Checkpoint.from_json(c.to_json()) == c
        True
        """
        return json.dumps(
            {
                "system_identifier": self.system_identifier,
                "timeline": self.timeline,
                "database": self.database,
                "slot": self.slot,
                "lsn": str(self.lsn),
                "mark": self.mark and [str(self.mark.lsn), self.mark.time],
                "publication": self.publication,
                "forms": self.forms,
                "publication_version": self.publication_version,
                "entries": {str(table): list(entries) for table, entries in self.entries.items()},
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Checkpoint:
        try:
            raw = json.loads(text)
            return cls(
                str(raw["system_identifier"]),
                int(raw["timeline"]),
                str(raw["database"]),
                str(raw["slot"]),
                Lsn.parse(raw["lsn"]),
                _mark(raw.get("mark")),
                int(raw.get("publication", 0)),
                _forms(raw.get("forms")),
                str(raw.get("publication_version", "")),
                {int(table): tuple(map(int, entries)) for table, entries in raw.get("entries", {}).items()},
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"not a checkpoint: {text!r}", hint="Pass what Checkpoint.to_json() gave, unchanged."
            ) from error


def _forms(raw: dict[str, Any] | None) -> Forms | None:
    return None if raw is None else {str(name): (int(oid), str(spark)) for name, (oid, spark) in raw.items()}


def _mark(raw: list[Any] | None) -> Mark | None:
    return None if raw is None else Mark(Lsn.parse(raw[0]), None if raw[1] is None else int(raw[1]))
