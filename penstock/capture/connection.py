"""Connections to a source, for queries and for replication, on which the text of a value is always the same text.

Both kinds get the same settings, so that COPY and the WAL give one spelling of a value whatever the server's or the
role's defaults are. What psycopg raises leaves here as an error of our own tree. A network that swallows
everything ends a connection within a minute, and a query of a hurried one within the time that connecting may take.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from penstock.capture.config import read_conninfo
from penstock.errors import (
    AccessRefused,
    DecodeError,
    MissingPrivilege,
    NoSlotLeft,
    NotStreamed,
    SlotInUse,
    SlotLost,
    SourceError,
    SourceUnreachable,
)

RV = TypeVar("RV")
_CONNECT_TIMEOUT = 10  # seconds
_LOOK = 0.1  # seconds between looks at the clock


class Connection(psycopg.Connection[TupleRow]):
    """Of its own accord a query waits as long as the connection lives: a slot, a lock or a copy takes its time."""

    connect_timeout: float = _CONNECT_TIMEOUT
    patience: float | None = None  # seconds until a query without an answer ends the connection

    def hurried(self) -> Self:
        """From now on for short questions: an answer may take as long as connecting may."""
        self.patience = self.connect_timeout or None
        return self

    @contextmanager
    def unhurried(self) -> Iterator[Self]:
        """For one that may take long, whatever the others may."""
        before, self.patience = self.patience, None
        try:
            yield self
        finally:
            self.patience = before

    def wait(self, gen: PQGen[RV], interval: float = _LOOK, timeout: float | None = None) -> RV:
        given = () if timeout is None else (timeout,)
        if self.patience is None:
            return super().wait(gen, interval, *given)
        try:
            return super().wait(_within(gen, self.patience), interval, *given)
        except NoAnswer:
            self.close()  # what it would still say belongs to nobody
            raise


class NoAnswer(psycopg.OperationalError):
    """The server, or the network before it, kept silent."""


def _within(gen: PQGen[RV], seconds: float) -> PQGen[RV]:
    deadline = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise NoAnswer(f"the server gave no answer within {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as done:
        result: RV = done.value
        return result


_SESSION = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "3",  # 1 is exact only from 12 on
    "lc_monetary": "C",
    "xmlbinary": "base64",
    "search_path": "pg_catalog",  # regclass and its kin print the schema unless it is in the path
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "30s",
    "row_security": "off",  # a policy that hides rows from us is an error, not a smaller table
    "synchronous_commit": "on",
}


def connect(dsn: str, **settings: str) -> Connection:
    """A connection for queries, in autocommit."""
    connection = _connect(dsn, settings)
    if connection.info.server_version >= 140000:
        with translated():
            connection.execute("SET idle_session_timeout = 0")
    return connection


def connect_replication(dsn: str, **settings: str) -> Connection:
    """A connection to a WAL sender of the database."""
    return _connect(dsn, settings, replication="database")


def _connect(dsn: str, settings: dict[str, str], **parameters: str) -> Connection:
    given = read_conninfo(dsn)
    options = [str(given.get("options") or "")]
    options += [f"-c {name}={value}" for name, value in {**_SESSION, **settings}.items()]
    merged: dict[str, Any] = {
        "connect_timeout": _CONNECT_TIMEOUT,
        "application_name": "penstock",
        "tcp_user_timeout": 60_000,  # milliseconds
        "keepalives": 1,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        **given,
        **parameters,
        "client_encoding": "UTF8",
        "options": " ".join(options).strip(),
    }
    try:
        connection = Connection.connect(make_conninfo("", **merged), autocommit=True)
        connection.connect_timeout = float(merged["connect_timeout"])
        return connection
    except psycopg.Error as error:
        failure = translate(error)
    raise failure  # outside of the handler: psycopg's error holds the password, and would come along as its context


@contextmanager
def translated() -> Iterator[None]:
    """Turn what psycopg raises inside into our errors."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


def translate(error: psycopg.Error) -> SourceError:
    text = str(error).strip()
    match error:
        case pg.InsufficientPrivilege():
            return MissingPrivilege(text, hint="Grant the role what the message names.")
        case pg.TooManyConnections() | pg.ConfigurationLimitExceeded():
            return NoSlotLeft(text, hint="Close connections, or raise the limit the message names.")
        case pg.LockNotAvailable():
            return SourceUnreachable(text, hint="Another session holds the lock; try again when it has finished.")
        case pg.ObjectInUse():
            return SlotInUse(text, hint="Stop the other consumer, or use a slot of its own.")
        case psycopg.Error() if re.search(_NO_SLOT, text):
            return SlotLost(text, hint="Run `penstock slots recover` for its source; the tables are copied again.")
        case psycopg.Error() if re.search(_NOT_STREAMED, text):
            return NotStreamed(
                text,
                hint="The server cannot decode this transaction (a TRUNCATE or ALTER was rolled back before a "
                "TRUNCATE), also now that it is complete. Nothing before it is missing; to go on behind it, the tables "
                "must be copied again: run `penstock slots recreate`.",
            )
        case pg.CharacterNotInRepertoire() | pg.UntranslatableCharacter():  # in a SQL_ASCII database
            return DecodeError(text, hint="Correct the text in the source, or hold it as bytea; we read UTF-8.")
        case psycopg.OperationalError() if error.sqlstate in (None, *_GONE) or error.sqlstate[:2] in ("08", "28"):
            return _unreachable(text)
        case psycopg.Error() if type(error) is psycopg.DatabaseError and error.sqlstate is None:
            return _unreachable(text)  # libpq's own words in place of a result: the connection ended
        case _:
            return SourceError(text, hint="The source refused this; see the server's log for the statement.")


_NO_SLOT = (
    r'replication slot ".*" does not exist|can no longer (access|get changes from) replication slot|'
    r"cannot read from logical replication slot|requested WAL segment \w+ has already been removed"
)
_NOT_STREAMED = r"could not map file(number|node) .* to relation OID"
_GONE = ("57P01", "57P02", "57P03", "57P05", "3D000")
# libpq gives no SQLSTATE for a connection that was not made, so these are told by its words. A server that speaks
# another language is retried instead: slower to say so, never wrong.
_REFUSALS = (
    (
        r"password|authentication|no pg_hba\.conf entry|pg_hba\.conf rejects|not permitted to log in",
        "Check the user, the password, and the server's pg_hba.conf (a line for this user, database and kind of "
        "connection).",
    ),
    (r'(database|role) ".*" does not exist', "Check the names of the database and the user."),
    (
        r"certificate verify failed|root certificate file|root\.crt",
        "ssl_root_cert must name the authority that signed the server's certificate; `require` encrypts without it.",
    ),
    (
        r"does not match host name",
        "Connect by the name that the server's certificate carries, or use verify-ca, which does not compare names.",
    ),
    (
        r"does not support SSL",
        "Turn on ssl in the server's postgresql.conf, or choose ssl_mode prefer or disable.",
    ),
    (r"certificate|private key file", "Check ssl_cert and ssl_key, and that only their owner can read the key."),
)


def _unreachable(text: str) -> SourceUnreachable:
    for words, hint in _REFUSALS:
        if re.search(words, text):
            return AccessRefused(text, hint=hint)
    return SourceUnreachable(text, hint="Check host and port, and that the server is up; the call may be repeated.")
