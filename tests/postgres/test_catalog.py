"""The catalog's connection: questions that are asked together, and commits that a replaced worker cannot make."""

from __future__ import annotations

import psycopg
import pytest

import penstock
from penstock.catalog import sources, stream_tables
from penstock.catalog.lease import Lease
from penstock.catalog.store import ROUND, Question
from penstock.errors import LeaseLost

ONE = Question("SELECT 1 AS n", lambda rows: rows[0]["n"])
TWO = Question("SELECT 2 AS n", lambda rows: rows[0]["n"])
WRONG = Question("SELECT 1 / 0 AS n", lambda rows: rows[0]["n"])


def test_answers_come_in_the_order_of_the_questions(ps: penstock.Session) -> None:
    for _ in range(8):  # more often than it takes for statements to be prepared
        assert ps.catalog.ask(TWO, ONE, sources.EVERY, stream_tables.EVERY) == [2, 1, [], []]
    assert ps.catalog.answer(ONE) == 1


def test_a_question_that_fails_spoils_no_other(ps: penstock.Session) -> None:
    for _ in range(8):
        with pytest.raises(psycopg.errors.DivisionByZero):
            ps.catalog.ask(ONE, WRONG, TWO)
        assert ps.catalog.ask(ONE, TWO) == [1, 2]


@pytest.mark.parametrize("registered", [True, False])
def test_a_worker_that_was_replaced_commits_nothing(ps: penstock.Session, registered: bool) -> None:
    lease = ps.catalog.lease("work")
    attempt = ps.catalog.begin(lease, "refresh") if registered else None
    stale = Lease(lease._connection, lease.name, lease.epoch, set())
    lease.release()
    with ps.catalog.lease("work") as successor:
        rounds = ps.catalog.one("SELECT count(*) AS n FROM rounds")
        with pytest.raises(LeaseLost), ps.catalog.commit(stale, attempt, "refresh") as commit:
            commit.connection.execute("CREATE TABLE never (n int)")
        assert ps.catalog.one("SELECT count(*) AS n FROM rounds") == rounds
        assert ps.catalog.one("SELECT to_regclass('never') AS t") == {"t": None}
        with ps.catalog.commit(successor, None, "refresh") as commit:
            assert commit.connection.execute("SELECT 1 AS n").rowcount == 1  # what it runs is run at once
            assert commit.round


@pytest.mark.parametrize("piped", [True, False])
def test_a_commit_is_whole_or_not_at_all_and_the_next_one_goes_on(ps: penstock.Session, piped: bool) -> None:
    ps.catalog.connection.execute("CREATE TABLE noted (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")

    def note(lease: Lease, *values: int, fail: str = "") -> None:
        with ps.catalog.commit(lease, None, "refresh", piped=piped) as commit:
            for value in values:
                commit.connection.execute("INSERT INTO noted VALUES (%s)", (value,))
            if fail == "statement":
                commit.connection.execute("SELECT 1 / 0")
                commit.connection.execute("INSERT INTO noted VALUES (-1)")
            elif fail:
                raise KeyError(fail)

    for turn in range(8):
        with ps.catalog.lease("work") as lease:
            with pytest.raises(psycopg.errors.DivisionByZero):
                note(lease, 100, fail="statement")
            with pytest.raises(KeyError):
                note(lease, 100, fail="caller")
            with pytest.raises(psycopg.errors.UniqueViolation):  # the COMMIT itself fails
                note(lease, 100, 100)
            note(lease, turn)
        with ps.catalog.another() as other:
            assert [row["n"] for row in other.execute("SELECT n FROM noted ORDER BY n")] == list(range(turn + 1))


@pytest.mark.parametrize("piped", [True, False])
def test_a_replaced_worker_records_nothing(ps: penstock.Session, piped: bool) -> None:
    ps.catalog.connection.execute("CREATE TABLE noted (n int, round bigint)")
    lease = ps.catalog.lease("work")
    stale = Lease(lease._connection, lease.name, lease.epoch, set())
    lease.release()

    def note(lease: Lease, value: int) -> int | None:
        with ps.catalog.commit(lease, None, "refresh", piped=piped) as commit:
            commit.connection.execute(f"INSERT INTO noted VALUES (%s, {ROUND})", (value, commit.round))
        return commit.round

    def fail(lease: Lease) -> None:
        with ps.catalog.commit(lease, None, "refresh", piped=piped) as commit:
            commit.connection.execute("INSERT INTO noted VALUES (3)")
            raise OSError("a file is gone")

    with ps.catalog.lease("work") as successor:
        for _ in range(8):
            with pytest.raises(LeaseLost, match="took over"):
                note(stale, 1)
            with pytest.raises((LeaseLost, OSError)):
                fail(stale)  # of two failures one is told, and the next commit goes on
            with pytest.raises(OSError, match="a file"):
                fail(successor)
            with ps.catalog.connection.transaction():
                pass
            number = note(successor, 2)
            with ps.catalog.another() as other:
                last = other.execute("SELECT n, round FROM noted ORDER BY round DESC LIMIT 1").fetchone()
                assert last == {"n": 2, "round": number}
        assert ps.catalog.one("SELECT count(*) AS n FROM noted") == {"n": 8}


def test_an_attempt_commits_once(ps: penstock.Session) -> None:
    with ps.catalog.lease("work") as lease:
        attempt = ps.catalog.begin(lease, "refresh")
        with ps.catalog.commit(lease, attempt, "refresh"):
            pass
        with pytest.raises(LeaseLost), ps.catalog.commit(lease, attempt, "refresh"):
            pass
