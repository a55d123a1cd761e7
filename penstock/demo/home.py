"""The demo's folder: made afresh at every run, never while another demo uses it, never over somebody's data."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.embedded import EmbeddedPostgres
from penstock.errors import Busy, ConfigError

_MARK = ".penstock-demo"


@contextmanager
def fresh(folder: Path) -> Iterator[bool]:
    """An empty folder that is ours while the block runs; yields whether an earlier demo was removed for it."""
    folder = folder.expanduser()
    found = folder.exists()
    if found and not _is_ours(folder):
        raise ConfigError(
            f"{folder} holds something other than a demo", hint="Give the demo a folder of its own with --home."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _MARK).open("w") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another demo is running in {folder}", hint="Stop it, or use another --home.") from None
        replaced = _empty(folder)
        yield replaced


def _is_ours(folder: Path) -> bool:
    return folder.is_dir() and ((folder / _MARK).exists() or not any(folder.iterdir()))


def _empty(folder: Path) -> bool:
    """Remove all but the mark; servers that a killed demo left behind are stopped first."""
    for server in sorted(folder.glob("*/postmaster.pid")):
        EmbeddedPostgres(server.parent).stop()
    leftovers = [path for path in folder.iterdir() if path.name != _MARK]
    for path in leftovers:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return bool(leftovers)
