"""Where a source's reader stands: the end of a commit (or a keepalive) up to which everything was delivered.

It also names the server, the database and the slot, so that a position is never used on another one's log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from penstock.capture.forms import Forms
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

    def to_json(self) -> str:
        """
        >>> c = Checkpoint("7", 1, "shop", "s", Lsn(16), Mark(Lsn(8), 99), forms={"public.t.n": (1700, "string")})
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
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"not a checkpoint: {text!r}", hint="Pass what Checkpoint.to_json() gave, unchanged."
            ) from error


def _forms(raw: dict[str, Any] | None) -> Forms | None:
    return None if raw is None else {str(name): (int(oid), str(spark)) for name, (oid, spark) in raw.items()}


def _mark(raw: list[Any] | None) -> Mark | None:
    return None if raw is None else Mark(Lsn.parse(raw[0]), None if raw[1] is None else int(raw[1]))
