"""How the processes of a run share the tests: each takes a file at a time, so that what a file starts is started once.

Files on Spark come first. They are the longest, and each process has its own Spark session for all of those it takes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

_ROOT = Path(__file__).parents[1]


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return _file(nodeid)


def on_spark(nodeid: str) -> bool:
    """All of `tests/spark`, and other files that name the session."""
    return _names_spark(_file(nodeid))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@cache
def _names_spark(file: str) -> bool:
    if not file.startswith("tests/"):  # a doctest
        return False
    return file.startswith("tests/spark/") or "SparkSession" in (_ROOT / file).read_text()
