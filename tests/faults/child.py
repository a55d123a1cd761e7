"""A process of its own that captures until it is killed at a failpoint.

It is forked from a server that has imported everything once: that saves each child its second of imports.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import penstock
from penstock import failpoint
from penstock.capture import ingest, pull

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["penstock.session"])


class Child:
    def __init__(self, home: Path, catalog: str, source: str, killed_at: str, options: dict[str, Any]) -> None:
        self._ours, theirs = _forks.Pipe()
        arguments = (theirs, home, catalog, source, killed_at, options)
        self._process = _forks.Process(target=_capture, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def caught_up(self) -> bool:
        """Wait for the end of a catch-up; False if the process ended in it."""
        try:
            return bool(self._ours.recv())
        except EOFError:
            return False

    def again(self) -> None:
        self._ours.send(None)

    def exit_code(self) -> int | None:
        """Negative for the signal that ended it."""
        self._process.join(30)
        return self._process.exitcode


def _capture(
    parent: Connection, home: Path, catalog: str, source: str, killed_at: str, options: dict[str, Any]
) -> None:
    pulls = options.get("reader") == "pull"
    if pulls:
        pull._LAST = 0  # else what is less than a megabyte is left to the stream
    if killed_at.startswith("settle"):
        ingest.AT_ONCE_ROWS = -1
    failpoint.arm_from_environment(f"{killed_at}=kill")
    with penstock.connect(home=home, catalog=catalog) as ps:
        ps.add_source("shop", source, tables=["public.*"], **options)
        while True:
            ps.catch_up()
            parent.send(True)
            parent.recv()
            if pulls:  # what is waiting when a source is opened is pulled
                ps.engine.captures.close()
