"""A home without Spark: capture needs none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock


@pytest.fixture
def ps(tmp_path: Path, catalog_db: str) -> Iterator[penstock.Session]:
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db) as session:
        yield session
