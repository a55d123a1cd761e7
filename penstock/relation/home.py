"""Where a penstock home keeps what: paths in the catalog are relative to it, so a home can be moved."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.relation.segment import Segment


@dataclass(frozen=True)
class Owed:
    """A segment of the relation with this folder, and when it was written (`time.monotonic`)."""

    folder: str
    segment: Segment
    at: float


@dataclass(frozen=True)
class Home:
    """`catalog/` is the embedded server, `changelog/` the segments, `tables/` and `views/` the Delta tables.

    `owed` are segments that this process has written and not described yet."""

    root: Path
    owed: deque[Owed] = field(default_factory=deque, compare=False, repr=False)

    @classmethod
    def at(cls, folder: Path | str) -> Home:
        root = Path(folder).expanduser().resolve()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except (OSError, FileExistsError) as error:
            raise ConfigError(
                f"{root} cannot be used as a home: {error}", hint="Give a folder you can write to."
            ) from error
        return cls(root)

    @property
    def catalog(self) -> Path:
        return self.root / "catalog"

    def base(self, folder: str) -> Path:
        """The Delta table of a relation, by its folder (`tables/shop/public/orders`, `views/revenue`)."""
        return self.root / folder

    def changelog(self, group: str = "") -> Path:
        return self.root / "changelog" / group

    def segments(self, folder: str, at: datetime) -> Path:
        """Where segments written at a moment are: by group (a source's tables, or all stream tables), then by hour."""
        return self.changelog(group_of(folder)) / f"{at:%Y/%m/%d/%H}"

    def path(self, relative: str) -> Path:
        return self.root / relative

    def relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def group_of(folder: str) -> str:
    """
    >>> group_of("tables/shop/public/orders"), group_of("views/revenue"), group_of("states/revenue/sum")
    ('tables/shop', 'views', 'states')
    """
    parts = folder.split("/")
    return "/".join(parts[:2]) if parts[0] == "tables" else parts[0]


def stem_of(folder: str) -> str:
    """A relation's name as the beginning of a file's: without what Spark takes for a pattern, a partition or hidden.

    >>> stem_of("tables/shop/public/orders"), stem_of("views/_x"), stem_of("tables/shop/public/a=[b]")
    ('public.orders', '%5Fx', 'public.a%3D%5Bb%5D')
    """
    name = folder[len(group_of(folder)) + 1 :].replace("/", ".")
    stem = re.sub(r"[^\w.%-]", lambda found: f"%{ord(found[0]):02X}", name)
    stem = re.sub(r"^[._]", lambda found: f"%{ord(found[0]):02X}", stem)
    if len(stem.encode()) <= 150:
        return stem
    return f"{stem[:40]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def folder_name(name: str) -> str:
    """A name as that of one folder.

    >>> folder_name("orders"), folder_name("a/b"), folder_name("..")
    ('orders', 'a%2Fb', '%2E%2E')
    """
    part = name.replace("%", "%25").replace("/", "%2F")
    return part if part.strip(".") else part.replace(".", "%2E")
