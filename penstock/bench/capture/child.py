"""What is measured in a process of its own: memory, idle time, and a start.

`python -m penstock.bench.capture.child JOB ARGUMENTS…` prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.bench.capture import contenders
from penstock.capture import Checkpoint
from penstock.capture.lifecycle import Captures
from penstock.catalog.store import Catalog
from penstock.errors import PenstockError
from penstock.relation.home import Home


def ask(job: str, *arguments: str) -> Any:
    """Run a job in a new process and return what it printed."""
    command = [sys.executable, "-m", __name__, job, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PenstockError(f"{job} failed:\n{done.stderr}", hint="See the error above.")
    return json.loads(done.stdout)


def into_home(home: str, name: str) -> dict[str, int]:
    """Catch up a source of the home; the peak memory of doing so."""
    where = Home.at(home)
    catalog = Catalog(where)
    try:
        captures = Captures(where, catalog)
        try:
            captures.catch_up(name)
        finally:
            captures.close()
    finally:
        catalog.close()
    return {"peak": peak_memory()}


def poll(dsn: str, state: str) -> dict[str, int]:
    rows = contenders.poll_from(dsn, Checkpoint.from_json(state))
    return {"rows": rows, "peak": peak_memory()}


def first_event(dsn: str, state: str) -> float:
    """When the first change after `state` was here."""
    restored = Checkpoint.from_json(state)
    with contenders.polled_source(dsn, restored.slot) as source:
        source.restore(restored)
        source.open()
        while source.poll() is None:
            pass
        return time.time()


def idle(dsn: str, state: str, windows: str, length: str) -> list[float]:
    """The share of a core that polling takes, for several stretches of time."""
    restored = Checkpoint.from_json(state)
    with contenders.polled_source(dsn, restored.slot, ["public.*"]) as source:
        source.restore(restored)
        source.open()
        source.poll(timeout=1.0)
        shares = []
        for _ in range(int(windows)):
            busy, started = time.process_time(), time.monotonic()
            while (passed := time.monotonic() - started) < float(length):
                source.poll()
            shares.append((time.process_time() - busy) / passed)
        return shares


def peak_memory() -> int:
    """In bytes. Where there is /proc, from there: getrusage keeps the peak of the parent it was forked from."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


_JOBS: dict[str, Any] = {job.__name__: job for job in (into_home, poll, first_event, idle)}

if __name__ == "__main__":
    print(json.dumps(_JOBS[sys.argv[1]](*sys.argv[2:])))
