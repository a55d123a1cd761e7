"""The catalog: a PostgreSQL database in which one transaction makes a step real.

Embedded under the home by default, or any DSN. Migrations are numbered, forward only, and applied under a lock, so
several processes may open one catalog at once. Everything lives in the schema `penstock`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Generic, LiteralString, TypeVar, cast

import psycopg
from psycopg import Transaction
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row

from penstock.catalog.lease import Lease, acquire, is_going
from penstock.embedded import EmbeddedPostgres
from penstock.errors import Busy, CatalogError, LeaseLost
from penstock.failpoint import hit
from penstock.passwords import parameters
from penstock.relation.home import Home

Connection = psycopg.Connection[DictRow]
T = TypeVar("T")
_MIGRATION_LOCK = 0x70656E73  # "pens"
ROUND = "coalesce(%s, currval('round_number'))"  # of a commit's round, known or not
# A plan for any parameters is as good as one for these, and making one takes longer than most statements.
_OPTIONS = "-c search_path=penstock -c synchronous_commit=on -c plan_cache_mode=force_generic_plan"
_AGAIN = 0.03  # seconds between two looks at a lease that another one has
_GOING = 10.0  # seconds for the server to let go of a lease whose process has ended


@dataclass(frozen=True)
class Question(Generic[T]):
    """A query that can be asked together with others, and what its rows say."""

    query: LiteralString
    read: Callable[[list[DictRow]], T]
    parameters: tuple[Any, ...] = ()


def beginning(lease: Lease, purpose: str, then: Callable[[int], T]) -> Question[T]:
    """`Catalog.begin` for one who asks more at the same time; `then` gets the number."""
    return Question(
        "INSERT INTO attempts (lease, epoch, purpose) VALUES (%s, %s, %s) RETURNING id",
        lambda rows: then(rows[0]["id"]),
        (lease.name, lease.epoch, purpose),
    )


class Commit:
    """One catalog transaction of one attempt: what it records becomes visible together, or not at all.

    `round` is None as long as its statements are only sent; in these, `ROUND` is the number that it will be.
    """

    def __init__(self, connection: Connection, attempt: int | None) -> None:
        self.connection = connection
        self.attempt = attempt
        self.round: int | None = None


class Catalog:
    """An open catalog, for any number of threads: each has a connection, and so transactions, of its own."""

    def __init__(self, home: Home, dsn: str | None = None) -> None:
        if dsn is not None and parameters(dsn) is None:  # libpq's own words quote the string
            raise CatalogError(
                "the catalog cannot be opened: not a PostgreSQL connection string",
                hint="Write it as postgresql://user:password@host/database; %-encode what is special in a URI.",
            )
        self._server = EmbeddedPostgres(home.catalog) if dsn is None else None
        self.dsn = self._server.dsn if self._server else str(dsn)
        self._mine = threading.local()
        self._opened: list[Connection] = []
        self._held: set[str] = set()
        self._taking = threading.Lock()
        try:
            self._locks = self.connect()
            self._migrate()
        except psycopg.Error as error:
            self.close()
            raise CatalogError(
                f"the catalog cannot be opened: {str(error).strip()}",
                hint="Check the catalog DSN: the role needs CREATE on that database.",
            ) from error

    @property
    def connection(self) -> Connection:
        """This thread's connection: for reading, and for small changes that no lease guards."""
        if not hasattr(self._mine, "connection"):
            self._mine.connection = self.connect()
        return cast(Connection, self._mine.connection)

    def connect(self) -> Connection:
        connection = psycopg.connect(self.dsn, autocommit=True, row_factory=dict_row, options=_OPTIONS)
        self._opened.append(connection)
        return connection

    @contextmanager
    def another(self) -> Iterator[Connection]:
        """A connection of its own, for what must go with it."""
        connection = self.connect()
        try:
            yield connection
        finally:
            self._opened.remove(connection)
            connection.close()

    def leave(self) -> None:
        """This thread's connection is not needed any more."""
        connection = self.__dict__["_mine"].__dict__.pop("connection", None)
        if connection is not None:
            self.drop(connection)

    def drop(self, connection: Connection) -> None:
        """The connection of a thread that has ended."""
        self._opened.remove(connection)
        connection.close()

    def close(self) -> None:
        for connection in self._opened:
            connection.close()
        if self._server:
            self._server.stop()

    @cached_property
    def identity(self) -> str:
        """Which catalog this is, for good."""
        return str(cast(DictRow, self.one("SELECT id FROM identity"))["id"])

    def lease(self, name: str, *, wait: float = 0.0) -> Lease:
        """Become the only live worker for `name`, or raise `Busy` (after so many seconds): also to another thread."""
        begun = time.monotonic()
        while True:
            with self._taking:
                try:
                    return acquire(self._locks, name, self._held)
                except Busy:
                    patience = max(wait, _GOING) if is_going(self._locks, name) else wait
                    if time.monotonic() - begun >= patience:
                        raise
            time.sleep(_AGAIN)

    def begin(self, lease: Lease, purpose: str) -> int:
        """Register an attempt: its number names the files it writes."""
        return self.answer(beginning(lease, purpose, int))

    @contextmanager
    def commit(
        self, lease: Lease, attempt: int | None, purpose: str, *, piped: bool = False
    ) -> Iterator[Commit]:  # fmt: skip
        """One transaction guarded by the lease's epoch: a worker that was replaced cannot commit.

        A step that wrote no files needs no attempt of its own beforehand: it gets one inside. `piped`: everything is
        sent without waiting for an answer, the COMMIT too, and its round is known when that is done.
        """
        hit(f"{purpose}.before_commit")
        try:
            with ExitStack() as whole, ExitStack() as opening:
                (whole if piped else opening).enter_context(self.connection.pipeline())
                whole.enter_context(Transaction(self.connection))  # transaction() would wait before the COMMIT
                taking = self.connection.execute(
                    "SELECT round, attempt FROM take_round(%s, %s, %s, %s)", (lease.name, lease.epoch, attempt, purpose)
                )
                opening.close()
                commit = Commit(self.connection, attempt)
                if not piped:
                    _taken(commit, taking)
                yield commit
            if piped:
                _taken(commit, taking)
        except psycopg.Error as error:
            self.leave()  # behind a statement that fails, a ROLLBACK that was sent with it is not heard
            raise _told(lease, attempt, _first_of(error)) from None
        except BaseException:
            # A statement before it may have failed as well, and nobody has heard of that.
            if self.connection.info.transaction_status is not TransactionStatus.IDLE:
                self.leave()
            raise
        hit(f"{purpose}.after_commit")

    def ask(self, *questions: Question[Any]) -> list[Any]:
        """The answers to all of them, by one round trip, in one transaction; each sees what is committed when it is
        its turn."""
        try:
            with self.connection.pipeline():
                asked = [self.connection.execute(one.query, one.parameters) for one in questions]
        except psycopg.Error:
            self.leave()  # it may believe that statements behind the one that failed were prepared
            raise
        return [one.read(answer.fetchall()) for one, answer in zip(questions, asked, strict=True)]

    def answer(self, question: Question[T]) -> T:
        return question.read(self.all(question.query, *question.parameters))

    def one(self, query: LiteralString, *parameters: Any) -> DictRow | None:
        return self.connection.execute(query, parameters).fetchone()

    def all(self, query: LiteralString, *parameters: Any) -> list[DictRow]:
        return self.connection.execute(query, parameters).fetchall()

    def _migrate(self) -> None:
        with self._locks.transaction():
            self._locks.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
            self._locks.execute("CREATE SCHEMA IF NOT EXISTS penstock")
            self._locks.execute(
                "CREATE TABLE IF NOT EXISTS migrations"
                " (version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
            )
            row = self._locks.execute("SELECT coalesce(max(version), 0) AS version FROM migrations").fetchone()
            done = cast(DictRow, row)["version"]
            known = migrations()
            if done > len(known):
                raise CatalogError(
                    f"the catalog is at migration {done}, this penstock knows {len(known)}",
                    hint="A newer penstock has opened it. Upgrade this installation.",
                )
            for version, (name, text) in list(enumerate(known, 1))[done:]:
                self._locks.execute(text)
                self._locks.execute("INSERT INTO migrations (version, name) VALUES (%s, %s)", (version, name))


def _taken(commit: Commit, taking: psycopg.Cursor[DictRow]) -> None:
    row = cast(DictRow, taking.fetchone())
    commit.round, commit.attempt = row["round"], row["attempt"]


def _told(lease: Lease, attempt: int | None, error: BaseException) -> BaseException:
    """What a commit failed for, in our own words where it was not allowed to begin."""
    match getattr(error, "sqlstate", None):
        case "PS001":
            return LeaseLost(
                f"another process took over {lease.name!r} while this one was away",
                hint="Nothing of this step was recorded. Start again if this process should do the work.",
            )
        case "PS002":
            return LeaseLost(f"attempt {attempt} of {lease.name!r} was already ended")
    return error


def _first_of(error: BaseException) -> BaseException:
    """The error of the statement that failed, where those sent behind it tell only that they were not run."""
    while isinstance(error, psycopg.errors.PipelineAborted) and error.__context__ is not None:
        error = error.__context__
    return error


def migrations() -> list[tuple[str, LiteralString]]:
    """All migrations in order, as (file name, SQL)."""
    folder = resources.files("penstock.catalog") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [(file.name, file.read_text()) for file in files]
