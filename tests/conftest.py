"""Servers and the Spark session that tests share: started once, on free ports, in temporary folders, and stopped."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import settings
from lanes import Lanes, on_spark
from servers import NEWEST, Databases, server_version, start_server

import penstock
from penstock.capture import ingest
from penstock.catalog.store import Catalog
from penstock.embedded import EmbeddedPostgres
from penstock.relation.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Most code of a test run is run a few times only: half of the JVM's time went into optimising it, a tenth into
# collecting garbage beside the work. The code cache is as large as with optimising, not a fifth of it.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")

_FOLDER, _FAILED = pytest.StashKey[str](), pytest.StashKey[bool]()

settings.register_profile("any machine", deadline=None)  # an example may wait for others: only a hang is an error
settings.load_profile("any machine")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A folder for this run alone: of the one that pytest's runs share, each new run takes the others' rights away,
    and their servers have none to their data then."""
    if config.option.basetemp is None:
        config.option.basetemp = config.stash[_FOLDER] = tempfile.mkdtemp(prefix="penstock-tests-")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """It stays where a test failed, to be looked at."""
    folder = config.stash.get(_FOLDER, None)
    if folder is not None and not config.stash.get(_FAILED, False):
        shutil.rmtree(folder, ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_FAILED] = exitstatus == pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes:
    return Lanes(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`since(version, feature)`: the test needs a feature that older servers do not have."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: not on_spark(item.nodeid))
    for item in items:
        for marker in item.iter_markers("since"):
            version, feature = marker.args
            if server_version() < version:
                item.add_marker(pytest.mark.skip(f"PostgreSQL {version} and later: {feature}"))


@pytest.fixture(scope="session")
def source_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL with logical replication, of the version under test."""
    server = start_server(tmp_path_factory.mktemp("source") / "pg")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def catalog_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedPostgres]:
    """The server of catalogs, always the newest; the source's own where that is it."""
    if server_version() == NEWEST:
        yield request.getfixturevalue("source_server")
        return
    server = start_server(tmp_path_factory.mktemp("catalog") / "pg", version=NEWEST)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def source_databases(source_server: EmbeddedPostgres) -> Iterator[Databases]:
    databases = Databases(source_server)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def catalog_databases(
    catalog_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Databases]:
    """`catalog` is the newest migration of an empty one, made once."""
    databases = Databases(catalog_server)
    with psycopg.connect(catalog_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE catalog")
    Catalog(Home.at(tmp_path_factory.mktemp("home")), catalog_server.dsn_of("catalog")).close()
    yield databases
    databases.close()


@pytest.fixture
def source_db(source_databases: Databases) -> Iterator[str]:
    """The DSN of a fresh database; it goes with all its slots after the test."""
    name, dsn = source_databases.create("source")
    yield dsn
    source_databases.drop(name)


@pytest.fixture
def catalog_db(catalog_databases: Databases) -> Iterator[str]:
    """The DSN of a fresh database for a catalog."""
    name, dsn = catalog_databases.create("catalog", like="catalog")
    yield dsn
    catalog_databases.drop(name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test run."""
    from penstock.lake.session import start

    session = start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def ps(tmp_path: Path, catalog_db: str, spark: SparkSession) -> Iterator[penstock.Session]:
    """A session on a fresh home."""
    with penstock.connect(home=tmp_path / "home", catalog=catalog_db, spark=spark) as session:
        yield session


@pytest.fixture
def settled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is small enough to be settled while it is captured waits for the settle step."""
    monkeypatch.setattr(ingest, "AT_ONCE_ROWS", -1)
