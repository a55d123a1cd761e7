"""Who goes first where there is work for more cores than there are: capture and commits, short and waited for.

What takes long and nobody waits for by the millisecond (Spark, the changelog's upkeep, publishing) goes behind them. On
Linux a priority is each thread's own, and inherited by the threads it starts; elsewhere it is the whole process's, and
only Spark's is lowered.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

import psutil

_BEHIND = 10  # as `nice` has it


def go_behind() -> None:
    """This thread."""
    if sys.platform == "linux":
        _lower(threading.get_native_id())


def put_behind(pid: int) -> None:
    """Another process, with all its threads."""
    if os.name != "posix":
        return
    _lower(pid)
    if sys.platform == "linux":
        with suppress(psutil.Error):
            for thread in psutil.Process(pid).threads():
                _lower(thread.id)


def _lower(number: int) -> None:
    """Behind others, unless it is already; what has ended, or is not ours, stays as it is."""
    with suppress(ProcessLookupError, PermissionError):
        if os.getpriority(os.PRIO_PROCESS, number) < _BEHIND:
            os.setpriority(os.PRIO_PROCESS, number, _BEHIND)
