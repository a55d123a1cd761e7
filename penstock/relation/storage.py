"""Files that could not be written for lack of room: one error that says where, and that the call may be repeated."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StorageFull

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: OSError) -> bool:
    return error.errno in _NO_ROOM


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Around everything that writes `path`; a half-written file is removed, so that it does not keep the disk full."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        path.unlink(missing_ok=True)
        raise StorageFull(
            f"no room to write {path}: {error.strerror or error}",
            hint="Make room, or move the folder to a larger disk; nothing was lost, and the call may be repeated.",
        ) from error
