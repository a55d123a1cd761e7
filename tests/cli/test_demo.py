"""The demo, as a user starts it: it proves itself, and leaves nothing running however it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

DEMO = [sys.executable, "-c", "from penstock.cli.main import main; main()", "demo"]


def left_running(home: Path) -> list[str]:
    """Processes that were started for this demo: the servers name its folder, Spark its warehouse."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        command = " ".join(process.info["cmdline"] or ())
        if str(home) in command:
            found.append(command)
    return found


@pytest.mark.matrix  # 94 s on two busy cores
@pytest.mark.timeout(240)
def test_a_short_demo_verifies_everything_and_stops_all_it_started(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    done = subprocess.run(
        [*DEMO, "--seconds", "5", "--home", str(home)], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 7 relations equal the source at LSN" in done.stdout
    assert "row changes/s" in done.stdout
    assert (home / "views" / "revenue_by_city" / "_delta_log").is_dir()
    assert done.stderr == ""
    assert left_running(home) == []


@pytest.mark.matrix
@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_all_it_started(tmp_path: Path, number: signal.Signals) -> None:
    home = tmp_path / "demo"
    running = start(home)
    wait_for(running, "row changes/s")
    running.send_signal(number)
    _, stderr = running.communicate(timeout=120)

    assert running.returncode == 128 + number
    assert stderr == ""
    assert left_running(home) == []


@pytest.mark.matrix
@pytest.mark.timeout(300)
def test_a_kept_demo_verifies_after_ctrl_c(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    running = start(home, "--keep")
    wait_for(running, "row changes/s")
    running.send_signal(signal.SIGINT)
    stdout, stderr = running.communicate(timeout=240)

    assert running.returncode == 0, stdout + stderr
    assert "All 7 relations equal the source at LSN" in stdout
    assert left_running(home) == []


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*DEMO, "--home", str(home), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(running: subprocess.Popen[str], text: str) -> None:
    assert running.stdout is not None
    for line in running.stdout:
        if text in line:
            return
    raise AssertionError(f"the demo ended before it printed {text!r}")
