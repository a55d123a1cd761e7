"""A proxy and a consumer on a fresh source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from faults.consumer import SETUP, Consumer
from faults.proxy import Proxy


@pytest.fixture
def db(source_db: str) -> Iterator[psycopg.Connection[Any]]:
    """The application, with its tables."""
    with psycopg.connect(source_db, autocommit=True) as connection:
        connection.execute(SETUP)
        yield connection


@pytest.fixture
def proxy(source_db: str) -> Iterator[Proxy]:
    with Proxy(source_db) as proxy:
        yield proxy


@pytest.fixture
def consumer(db: psycopg.Connection[Any], proxy: Proxy, source_db: str) -> Iterator[Consumer]:
    """Reads through the proxy."""
    consumer = Consumer(proxy.dsn, f"faults_{db.info.dbname}", direct=source_db)
    yield consumer
    consumer.close()
