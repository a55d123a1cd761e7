"""How the processes of a run share the tests: one has all those on Spark, for there is one Spark session; of the rest
each takes a file at a time, so that what a file starts is started once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

_ROOT = Path(__file__).parents[1]


SPARK = "Spark"


def lane(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith("tests/") and _on_spark(file) else file


@cache
def _on_spark(file: str) -> bool:
    """All of `tests/spark`, and other files that name the session."""
    return file.startswith("tests/spark/") or "SparkSession" in (_ROOT / file).read_text()


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)
