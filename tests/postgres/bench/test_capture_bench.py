"""`penstock bench capture` runs to its end and leaves nothing; a trial run says nothing about the bars."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from penstock.bench import capture
from penstock.errors import ConfigError

_BACKLOG = ("pg_recvlogical to nowhere", "raw COPY of the slot to nowhere, the limit", "slot to durable segments",
            "slot to poll")  # fmt: skip
_EXPECTED = {
    *(f"1,000 inserts: {reader}" for reader in _BACKLOG),
    *(f"1,000 updates and deletes, identity FULL: {reader}" for reader in _BACKLOG),
    *(f"1,000 inserts of 30 columns: {reader}" for reader in _BACKLOG),
    "1,000 inserts waiting: new process to its first event",
    "decoding plus Arrow, CPU time per event",
    "live: commit to poll, p50",
    "live: commit to poll, p99",
    "live: INSERT sent to poll",
    "live: commits/s reached",
    "checkpoint",
    "acknowledge",
    "copy of 1,000 rows: COPY to nowhere",
    "copy of 1,000 rows: to durable segments",
    "one transaction of 1,000 rows, peak memory, into a home",
    "one transaction of 1,000 rows, peak memory, through poll",
    "10 idle tables, CPU of the reading process",
    "one change waiting: new process to its first event",
}
_WITHOUT_BAR = {"pg_recvlogical to nowhere", "the limit", "INSERT sent to poll", "acknowledge", "COPY to nowhere"}


@pytest.mark.matrix
def test_a_trial_gives_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BENCH_SCALE", "0.0001")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said = io.StringIO()
    figures = capture.run(Console(file=said))
    assert {figure.what for figure in figures} == _EXPECTED
    assert len(figures) == len(_EXPECTED)
    for figure in figures:
        unbarred = figure.what.endswith(tuple(_WITHOUT_BAR))
        assert (figure.ok is None, figure.bar == "") == (unbarred, unbarred), figure
    assert "a trial" in said.getvalue()
    assert list(tmp_path.glob("penstock-bench-*")) == []
    here = [process.info for process in psutil.process_iter(["cmdline"]) if _mentions(process, tmp_path)]
    assert here == []


@pytest.mark.parametrize("scale", ["0", "-1", "2", "fast"])
def test_a_scale_that_means_nothing_is_refused(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BENCH_SCALE", scale)
    with pytest.raises(ConfigError, match="PENSTOCK_BENCH_SCALE"):
        capture.run(Console(file=io.StringIO()))


def _mentions(process: psutil.Process, folder: Path) -> bool:
    return any(str(folder) in word for word in process.info["cmdline"] or ())
