"""Who goes behind: a thread of its own accord, another process with all its threads, nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import psutil
import pytest

from penstock.priority import go_behind, put_behind

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a priority of each thread is Linux's")

TWO_THREADS = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
input()
threading.Thread(target=lambda: print(__import__("os").getpriority(0, threading.get_native_id()))).start()
"""


def niceness(thread: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, thread)


def test_a_thread_goes_behind_alone() -> None:
    found: list[int] = []

    def work() -> None:
        go_behind()
        found.append(niceness(threading.get_native_id()))

    before = niceness(threading.get_native_id())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0] > before == niceness(threading.get_native_id())


def test_what_is_behind_already_stays_there() -> None:
    found: list[int] = []

    def work() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 15)
        go_behind()
        found.append(niceness(threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [15]


def test_what_has_ended_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    put_behind(child.pid)


def test_a_process_goes_behind_with_its_threads_and_those_it_starts_later() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TWO_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        put_behind(child.pid)
        threads = {niceness(thread.id) for thread in psutil.Process(child.pid).threads()}
        child.stdin.write("\n")
        child.stdin.flush()
        assert threads == {int(child.stdout.readline())}
        assert threads.pop() > niceness(os.getpid())
