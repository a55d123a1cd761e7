"""What a Delta table says of itself, read without Spark: its version and the stamps of its commits.

Every commit of ours is stamped with its owner (a relation of one catalog, never used again after it was dropped) and
the position it brought the table to. A commit without such a stamp is another writer's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from penstock.errors import PublishError


@dataclass(frozen=True)
class Stamp:
    """Whose a Delta commit is, the position and frontier it reached, and the version of the shape it has.

    Shape 0 is one on the way to the next: the rows are those of the position, the columns are not.
    """

    relation: str
    owner: str
    position: int
    frontier: str
    shape: int = 1

    def to_json(self) -> str:
        return json.dumps(
            {
                "penstock": self.relation,
                "owner": self.owner,
                "position": self.position,
                "frontier": json.loads(self.frontier),
                "shape": self.shape,
                **self._cut(),
            }
        )

    def _cut(self) -> dict[str, str]:
        """The source and its LSN, for readers who know nothing of frontiers; views may be of several."""
        cuts = json.loads(self.frontier)
        return {"source": next(iter(cuts)), "lsn": next(iter(cuts.values()))} if len(cuts) == 1 else {}


@dataclass(frozen=True)
class Latest:
    version: int
    stamp: Stamp


def owner(folder: Path) -> str | None:
    """Who wrote the newest commit; None if that was not us, or if there is no table."""
    if not DeltaTable.is_deltatable(str(folder)):
        return None
    stamp = _stamp(DeltaTable(str(folder)).history(1)[0].get("userMetadata"))
    return stamp.owner if stamp else None


def latest(folder: Path, writer: str, *, since: int) -> Latest | None:
    """The newest commit, after a check that all commits past `since` are ours; None if there is no table."""
    if not DeltaTable.is_deltatable(str(folder)):
        return None
    table = DeltaTable(str(folder))
    version = table.version()
    stamp: Stamp | None = None
    for entry in table.history(max(1, version - since)):
        found = _stamp(entry.get("userMetadata"))
        if found is None or found.owner != writer:
            raise PublishError(
                f"version {entry['version']} of the Delta table {folder} was written by someone else"
                f" ({entry.get('operation', 'unknown operation')})",
                hint="A mirror has one writer. Restore it to the last version of penstock's, or remove the folder and "
                "publish again; derived data belongs into a table of its own.",
            )
        stamp = stamp or found
    assert stamp is not None
    return Latest(version, stamp)


def _stamp(text: str | None) -> Stamp | None:
    try:
        value = json.loads(text or "")
        return Stamp(
            value["penstock"], value["owner"], value["position"], json.dumps(value["frontier"]), value.get("shape", 1)
        )
    except (ValueError, KeyError, TypeError):
        return None


def row_count(folder: Path) -> int:
    """Rows in the files of the newest version, for a table whose last commit wrote all of them."""
    actions = pa.table(DeltaTable(str(folder)).get_add_actions(flatten=True))
    return pc.sum(actions["num_records"]).as_py() or 0
