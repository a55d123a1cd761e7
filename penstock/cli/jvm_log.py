"""Keeps the JVM's chatter out of sight: what child processes write to stderr goes to a file, Python's own does not.

Spark's JVM inherits file descriptor 2 and prints dozens of lines while it starts. Python's stderr moves to a copy of
the terminal's descriptor first, so that errors and prompts appear as always.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def kept_aside() -> Iterator[IO[bytes]]:
    """The file that holds what children say on stderr while the block runs; it goes with the process."""
    terminal = os.dup(2)
    python_stderr = sys.stderr
    with tempfile.TemporaryFile() as log, os.fdopen(terminal, "w", buffering=1, closefd=False) as ours:
        os.dup2(log.fileno(), 2)
        sys.stderr = ours
        try:
            yield log
        finally:
            sys.stderr = python_stderr
            os.dup2(terminal, 2)
            os.close(terminal)


def tail(log: IO[bytes], lines: int = 20) -> str:
    """The last lines a child wrote."""
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
