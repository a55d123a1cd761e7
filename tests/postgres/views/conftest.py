"""A database that compares text by its bytes, as views do: the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from postgres.views.maintained import Inputs
from postgres.views.queries import TABLES

from penstock.embedded import EmbeddedPostgres


@pytest.fixture(scope="session")
def oracle(catalog_server: EmbeddedPostgres) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE views_oracle TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'")
        with psycopg.connect(catalog_server.dsn_of("views_oracle"), autocommit=True) as connection:
            connection.prepare_threshold = None  # views are made again under names that stay
            connection.execute("SET TIME ZONE 'UTC'; SET synchronous_commit = off; SET client_min_messages = error")
            yield connection
        admin.execute("DROP DATABASE views_oracle WITH (FORCE)")


@pytest.fixture(scope="session")
def inputs(oracle: psycopg.Connection[Any]) -> Inputs:
    """The tables of the rule tests; each test clears them."""
    return Inputs(oracle, TABLES)
