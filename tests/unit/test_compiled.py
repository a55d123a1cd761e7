"""Machine code on the disk: used again by the next process, and never when any kernel's text has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

_RUN = "import penstock.capture.kernels.outer as outer; print(outer.outer(1))"
_INNER = """
from penstock.compiled import kernel

@kernel("int64(int64)", inline=True)
def inner(number):
    return number + {added}
"""
_OUTER = """
from penstock.capture.kernels.inner import inner
from penstock.compiled import kernel

@kernel("int64(int64)")
def outer(number):
    return inner(number)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A penstock of two kernels, one of which consists of the other."""
    package = tmp_path / "penstock"
    kernels = package / "capture/kernels"
    kernels.mkdir(parents=True)
    for folder in (package, package / "capture", kernels):
        (folder / "__init__.py").touch()
    shutil.copy(Path(penstock.__file__).parent / "compiled.py", package)
    (kernels / "outer.py").write_text(_OUTER)
    (kernels / "inner.py").write_text(_INNER.format(added=1))
    return package


def _outer_of_one(package: Path) -> int:
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    run = [sys.executable, "-c", _RUN]
    return int(subprocess.run(run, cwd=package.parent, env=environment, check=True, capture_output=True).stdout)


def _compiled(package: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in package.rglob("outer.outer*.nbc")}


def test_a_second_process_does_not_compile(package: Path) -> None:
    assert _outer_of_one(package) == 2
    compiled = _compiled(package)
    assert len(compiled) == 1
    assert _outer_of_one(package) == 2
    assert _compiled(package) == compiled


def test_a_kernel_follows_one_that_it_consists_of(package: Path) -> None:
    assert _outer_of_one(package) == 2
    (package / "capture/kernels/inner.py").write_text(_INNER.format(added=20))
    assert _outer_of_one(package) == 21
