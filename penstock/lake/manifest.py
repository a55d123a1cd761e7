"""The manifest: which version of each Delta table belongs to one frontier, for readers who have only the files.

`manifest.json` lies in the home and is replaced in one step. Every table under `tables` equals its relation at
`frontier` in the version named there: those versions give one consistent picture of all of them. What is published at
another pace is under `apart`, with the frontier of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from penstock.cut import Frontier
from penstock.relation.home import Home
from penstock.relation.segment import sync

NAME = "manifest.json"


@dataclass(frozen=True)
class Entry:
    """A Delta table: its folder in the home, a version of it, and the frontier it is known to equal."""

    name: str
    folder: str
    version: int
    rows: int
    frontier: Frontier

    def described(self) -> dict[str, object]:
        return {"path": self.folder, "version": self.version, "rows": self.rows}


def path(home: Home) -> Path:
    return home.root / NAME


def write(home: Home, frontier: Frontier, together: Iterable[Entry], apart: Iterable[Entry]) -> Path:
    """Replace the manifest; a reader sees the old one or the new one."""
    content = {
        "frontier": json.loads(str(frontier)),
        "written_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "tables": {one.name: one.described() for one in together},
        "apart": {one.name: {**one.described(), "frontier": json.loads(str(one.frontier))} for one in apart},
    }
    target, new = path(home), path(home).with_suffix(".json.new")
    new.write_text(json.dumps(content, indent=2) + "\n")
    sync(new)
    os.replace(new, target)
    sync(target)
    return target


def frontier(home: Home) -> Frontier | None:
    """Where the manifest is; None if there is none."""
    if not path(home).exists():
        return None
    return Frontier.parse(json.dumps(json.loads(path(home).read_text())["frontier"]))


def versions(home: Home) -> dict[str, int]:
    """The version of each table that the manifest names; VACUUM must leave it whole."""
    if not path(home).exists():
        return {}
    content = json.loads(path(home).read_text())
    return {name: entry["version"] for part in ("tables", "apart") for name, entry in content[part].items()}
