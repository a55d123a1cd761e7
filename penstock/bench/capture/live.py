"""Latency of a live source: from COMMIT to the return of the poll that carries the row, at 1,000 commits a second.

pgbench writes, one row a commit, on eight connections at random moments, and notes when each COMMIT returned. The
server may send a commit before it answers the writer, so a latency can be below zero; the time since the writer sent
its INSERT is given as well, which has the server's own fsync in it.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.bench.capture import contenders
from penstock.bench.capture.ground import Database, Ground, expect
from penstock.bench.figure import Figure
from penstock.capture import PostgresSource

_RATE, _SECONDS, _CLIENTS = 1000, 10, 8
_P50, _P99, _CHECKPOINT = 0.005, 0.020, 0.001
_SCRIPT = "\\set n :n + 1\nINSERT INTO t VALUES (:client_id, :n);\n"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Run:
    rate: float  # commits a second that pgbench reached
    since_commit: Floats
    since_insert: Floats


def figures(ground: Ground) -> list[Figure]:
    with ground.database("live") as source:
        ground.say(f"live, {_RATE:,} commits/s")
        source.execute("CREATE TABLE t (client int, n int, PRIMARY KEY (client, n))")
        with contenders.polled_source(source.dsn, "live") as reader:
            reader.open()
            contenders.poll_all(reader)
            _run(ground, source, reader, ground.seconds(2))  # warm
            runs = [_run(ground, source, reader, ground.seconds(_SECONDS)) for _ in range(ground.times(5))]
            saving = [_saving(source, reader) for _ in range(5)]
    return [*_latency(runs), *_saved(saving)]


def _run(ground: Ground, source: Database, reader: PostgresSource, length: float) -> _Run:
    source.execute("TRUNCATE t")
    contenders.poll_all(reader)
    with _writer(ground.folder, source, max(1, round(length))) as writer:
        arrivals = _arrivals(reader, writer)
    keys, arrived = (np.concatenate(column) for column in zip(*arrivals, strict=True))
    log = _log(ground.folder)
    expect("rows delivered, each once", sorted(keys), sorted(log["key"]))
    order, sent = np.argsort(keys), np.argsort(log["key"])
    commit = log["commit"][sent]
    since_commit, since_insert = arrived[order] - commit, arrived[order] - (commit - log["taken"][sent])
    rate = len(keys) / (commit.max() - commit.min())
    p50, p99 = (1000 * np.percentile(since_commit, p) for p in (50, 99))
    ground.say(f"  {rate:,.0f} commits/s: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    return _Run(rate, since_commit, since_insert)


@contextmanager
def _writer(folder: Path, source: Database, length: int) -> Iterator[subprocess.Popen[str]]:
    """pgbench at work, ended with the block whatever happens."""
    for old in folder.glob("live.log*"):
        old.unlink()
    script = folder / "live.sql"
    script.write_text(_SCRIPT)
    command = [str(source.server.program("pgbench")), "--no-vacuum", "--protocol=prepared"]
    command += [f"--client={_CLIENTS}", "--jobs=1"]
    command += [f"--rate={_RATE}", f"--time={length}", f"--file={script}", "--define=n=0"]
    command += ["--log", f"--log-prefix={folder / 'live.log'}", source.dsn]
    writer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield writer
        _, said = writer.communicate()
        expect(f"pgbench: {said}", writer.returncode, 0)
    finally:
        writer.kill()
        writer.wait()


def _arrivals(reader: PostgresSource, writer: subprocess.Popen[str]) -> list[tuple[npt.NDArray[np.int64], Floats]]:
    """Poll until the writer has left and everything it wrote is here: the keys of each batch and when it came."""
    arrivals, acknowledged, target = [], time.monotonic(), None
    while target is None or reader.checkpoint().lsn < target:
        batch = reader.poll()
        now = time.time()
        if batch is not None:
            table = batch.to_arrow()["public.t"]
            arrivals.append((_keys(table["client"].to_numpy(), table["n"].to_numpy()), np.full(table.num_rows, now)))
        if time.monotonic() - acknowledged > 1:
            reader.acknowledge(reader.checkpoint())
            acknowledged = time.monotonic()
        if target is None and writer.poll() is not None:
            target = reader.current_lsn()
    return arrivals


def _log(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """Of every commit: its key, when it returned (Unix time), and how long it took from the writer's INSERT on."""
    (file,) = folder.glob("live.log*")
    client, number, since_due, _, second, micros, late = np.loadtxt(file, np.int64, unpack=True, ndmin=2)
    return {
        "key": _keys(client, number),
        "commit": second + micros / 1e6,
        "taken": (since_due - late) / 1e6,
    }


def _keys(client: npt.NDArray[Any], number: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return client.astype(np.int64) << 32 | number.astype(np.int64)


def _saving(source: Database, reader: PostgresSource) -> tuple[float, float]:
    """Seconds of a checkpoint, as text to be kept, and of its acknowledgement, each after a new change."""
    source.execute("UPDATE t SET n = n + 1000000 WHERE ctid = (SELECT ctid FROM t LIMIT 1)")
    contenders.poll_all(reader)
    started = time.perf_counter()
    state = reader.checkpoint()
    state.to_json()
    taken = time.perf_counter()
    reader.acknowledge(state)
    return taken - started, time.perf_counter() - taken


def _latency(runs: Sequence[_Run]) -> list[Figure]:
    p50, p99 = (statistics.median(float(np.percentile(run.since_commit, p)) for run in runs) for p in (50, 99))
    rate = statistics.median(run.rate for run in runs)
    insert50, insert99 = (
        statistics.median(float(np.percentile(run.since_insert, p)) for run in runs) for p in (50, 99)
    )
    return [
        Figure("live: commit to poll, p50", f"{p50 * 1000:.2f} ms", f"< {_P50 * 1000:g} ms", p50 < _P50),
        Figure("live: commit to poll, p99", f"{p99 * 1000:.2f} ms", f"< {_P99 * 1000:g} ms", p99 < _P99),
        Figure("live: INSERT sent to poll", f"p50 {insert50 * 1000:.2f} ms, p99 {insert99 * 1000:.2f} ms"),
        Figure("live: commits/s reached", f"{rate:,.0f}", f"≥ {0.95 * _RATE:,.0f}", rate >= 0.95 * _RATE),
    ]


def _saved(saving: Sequence[tuple[float, float]]) -> list[Figure]:
    checkpoint, acknowledge = (statistics.median(times) for times in zip(*saving, strict=True))
    bar = f"< {_CHECKPOINT * 1000:g} ms"
    return [
        Figure("checkpoint", f"{checkpoint * 1000:.3f} ms", bar, checkpoint < _CHECKPOINT),
        Figure("acknowledge", f"{acknowledge * 1000:.3f} ms"),
    ]
