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
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BEHIND)


def put_behind(pid: int) -> None:
    """Another process, with all its threads."""
    process = psutil.Process(pid)
    if os.name == "posix":
        process.nice(_BEHIND)
    if sys.platform == "linux":
        for thread in process.threads():
            with suppress(ProcessLookupError):  # it has ended since
                os.setpriority(os.PRIO_PROCESS, thread.id, _BEHIND)
